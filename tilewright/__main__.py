"""`python -m tilewright`: the command line of the Python that runs it, whatever is on the path."""

from tilewright.start import main

if __name__ == "__main__":
    main()
