# The other images of docker-compose.yml, for an engine that cannot pull them: the same programs, started alike.
FROM python:3.11-slim-bookworm AS prometheus
COPY prometheus /bin/
RUN install --directory --owner=nobody --group=nogroup /prometheus
USER 65534
WORKDIR /prometheus
ENTRYPOINT ["/bin/prometheus"]
CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]

FROM python:3.11-slim-bookworm AS locust
COPY locust /wheels
RUN python3 -m venv /opt/locust && /opt/locust/bin/pip install --no-index --find-links /wheels locust
USER 65534
ENTRYPOINT ["/opt/locust/bin/locust"]
