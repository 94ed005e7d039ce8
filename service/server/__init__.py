"""Uvicorn, with connections that have deadlines and a shutdown that lets requests finish."""
