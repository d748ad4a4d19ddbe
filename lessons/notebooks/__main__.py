"""`python -m zerosim.lessons.notebooks`: write all notebooks anew."""

from zerosim.lessons.notebooks.making import write_all

if __name__ == "__main__":
    write_all()
