"""Kinds of users, one file each for `locust -f`; loadtest/README.md says what each is for."""
