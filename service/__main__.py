"""`python -m service` is `dragoman`."""

from service.cli import main

if __name__ == "__main__":
    main()
