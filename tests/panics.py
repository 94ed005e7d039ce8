"""A panic of a Rust library, as Python sees it."""


class PanicException(BaseException):
    """A stand-in for pyo3's class of the same name, which is no `Exception` either."""
