"""Random faults for as long as wanted, while canaries check every token: `python -m loadtest.soak --help`."""
