"""How good is `rankreg fit` on tables, beside what users would have done in five lines of their own?"""
