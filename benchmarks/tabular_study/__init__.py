"""Tables with a rare class, repeated stratified halves, eleven methods: who raises the fewest false alarms?"""
