"""`python -m service` is `dragoman`."""

from service.cli.main import main

if __name__ == "__main__":
    main()
