# The server with its embedded models: Python, the dependencies, the service and its C++ operators, but no compiler.
#
#   docker build -t dragoman .
#   docker run --read-only --stop-timeout 50 --publish 5000:5000 dragoman
#   docker run --rm dragoman translate "I see a cat."
#
# Every setting of `dragoman serve` is a variable (--env DRAGOMAN_REPLICAS=2). To serve another checkpoint, mount
# its directory readable for user 10001 and name it: --volume ./checkpoint:/model:ro --env DRAGOMAN_MODEL=/model.
# A checkpoint in another format is imported at the first start into /cache, and a public model (--env
# DRAGOMAN_MODEL=Helsinki-NLP/opus-mt-en-de) is downloaded there. It must be writable: --volume dragoman:/cache.
#
# Build arguments, all optional:
#   DEVICE            cpu, or cuda: torch with gigabytes of NVIDIA's libraries
#   PYTHON_IMAGE      the base image under a mirror's name, or by digest
#   BUILD_IMAGE       the image for the build, with a C++ compiler (GCC 12 or newer), the same Python and C library
#   PIP_INDEX_URL     a mirror of PyPI
#   TORCH_INDEX_URL   a mirror of PyTorch's index of CPU wheels
#
# deploy/image/constraints.txt has the version of every package.

ARG PYTHON_IMAGE=python:3.11-slim-bookworm
ARG BUILD_IMAGE=python:3.11-bookworm

# The dependencies come first, so that a change of source does not install torch again. torch comes before them,
# because its CPU build is not on PyPI; uv knows PyTorch's index.
FROM ${BUILD_IMAGE} AS torch
ARG DEVICE=cpu
# Without a default here, the tools' own defaults hold.
ARG PIP_INDEX_URL
ARG TORCH_INDEX_URL
ENV PATH="/opt/uv/bin:${PATH}" \
    VIRTUAL_ENV=/opt/venv \
    UV_DEFAULT_INDEX="${PIP_INDEX_URL}" \
    UV_CONSTRAINT=/build/constraints.txt \
    UV_BUILD_CONSTRAINT=/build/constraints.txt \
    UV_COMPILE_BYTECODE=1 \
    UV_NO_CACHE=1
WORKDIR /build
COPY pyproject.toml deploy/image/constraints.txt ./
# uv has an environment of its own; the other one goes into the final image.
RUN python3 -m venv /opt/uv \
    && pip install --no-cache-dir --disable-pip-version-check --constraint constraints.txt uv \
    && python3 -m venv --without-pip /opt/venv
RUN set -e; \
    case "${DEVICE}" in \
        cuda) uv pip install --no-deps torch ;; \
        cpu) if [ -n "${TORCH_INDEX_URL}" ]; then uv pip install --no-deps --default-index "${TORCH_INDEX_URL}" torch; \
            else uv pip install --no-deps --torch-backend cpu torch \
                || { echo "No CPU build of torch: TORCH_INDEX_URL can name a mirror of PyTorch's index" >&2; exit 1; }; fi ;; \
        *) echo "DEVICE is cpu or cuda, not '${DEVICE}'" >&2; exit 1 ;; \
    esac; \
    if grep --quiet '^cuda.*= None' /opt/venv/lib/python3*/site-packages/torch/version.py; then build=cpu; else build=cuda; fi; \
    [ "${build}" = "${DEVICE}" ] \
        || { echo "DEVICE is ${DEVICE}, but the index has torch's ${build} build: see the Dockerfile's head" >&2; exit 1; }

FROM torch AS dependencies
# The extras that operators need: traces, and limits that several servers count in one Redis.
RUN uv pip install --requirement pyproject.toml --extra otel --extra redis

FROM dependencies AS pruned
# Remove files that only tests and C++ builds read, and names that only debuggers do: a third of the environment.
RUN find /opt/venv/lib/python3*/site-packages/torch/bin -mindepth 1 ! -name torch_shm_manager -delete \
    && rm -rf /opt/venv/lib/python3*/site-packages/torch/include /opt/venv/lib/python3*/site-packages/torch/test \
    && find /opt/venv/lib -type d -name tests -prune -exec rm -rf {} + \
    && for package in torch/lib zstandard uvloop; do \
        find /opt/venv/lib/python3*/site-packages/${package} -name '*.so' -exec strip --strip-unneeded {} +; done

FROM dependencies AS application
COPY . ./
# A prefix of its own makes the application a layer apart from the dependencies.
# It compiles the operators for every processor of this architecture, too.
RUN uv pip install --no-deps --prefix /application/opt/venv . \
    && ls /application/opt/venv/lib/python3*/site-packages/model/kernels/*.so

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="Dragoman" \
      org.opencontainers.image.description="Self-hosted machine translation that streams" \
      org.opencontainers.image.licenses="Apache-2.0"
# A number, so that Kubernetes can verify runAsNonRoot; a name, because libraries look their user up.
RUN groupadd --gid 10001 dragoman \
    && useradd --uid 10001 --gid dragoman --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin dragoman \
    && install --directory --owner=dragoman --group=dragoman /cache
COPY --from=pruned /opt/venv /opt/venv
COPY --from=application /application /
# Nothing is written at run time; bytecode was compiled when the packages were installed.
ENV PATH="/opt/venv/bin:${PATH}" \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    DRAGOMAN_HOST=0.0.0.0 \
    DRAGOMAN_PORT=5000
# A library needs a writable directory for temporary files when it is imported, even on a read-only root file system.
ENV TMPDIR=/dev/shm
# Imported and downloaded models only. They are too large for memory, and serve the next start, too. A new Docker volume gets this
# directory's owner.
ENV XDG_CACHE_HOME=/cache
USER 10001:10001
WORKDIR /
EXPOSE 5000
# Not urllib, which would use the proxy of an HTTP_PROXY variable. -IS makes Python start faster.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python3", "-IS", "-c", "import http.client, os, sys; c = http.client.HTTPConnection('127.0.0.1', int(os.environ['DRAGOMAN_PORT']), timeout=4); c.request('GET', '/readyz'); sys.exit(c.getresponse().status != 200)"]
# No shell: SIGTERM must reach the server, which then lets running translations finish.
ENTRYPOINT ["dragoman"]
CMD ["serve"]
