"""`python -m kaa` is the program `kaa`, for where the folder of programs is not on the path."""

from kaa.cli import main

if __name__ == "__main__":
    main()
