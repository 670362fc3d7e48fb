"""`python -m rankreg`, and `torchrun -m rankreg fit …` for many processes."""

from rankreg.cli import main

if __name__ == "__main__":
    main()
