"""`python -m zerosim`, the command line where its script is not on the path."""

from zerosim.cli import main

if __name__ == "__main__":
    main()
