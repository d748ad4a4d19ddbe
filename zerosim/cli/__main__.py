"""`python -m zerosim.cli`, for launchers that start modules."""

from zerosim.cli.app import main

if __name__ == "__main__":
    main()
