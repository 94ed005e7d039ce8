"""The HTTP server: uvicorn with deadlines for connections and a shutdown that lets requests finish."""
