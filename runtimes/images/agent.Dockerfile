# The node agent, for people with Docker:
#   docker build -f runtimes/images/agent.Dockerfile -t iris/agent:dev .
# Without Docker: iris-devcluster images agent. A test holds both to the same pins, user and entrypoint.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS wheel
RUN pip install --no-cache-dir hatchling==1.33.0 grpcio-tools==1.85.1
WORKDIR /src
COPY pyproject.toml hatch_build.py README.md ./
COPY operator operator
COPY runtimes/iris_runtimes runtimes/iris_runtimes
RUN python -m hatchling build -t wheel -d /wheel

FROM ${BASE} AS busybox
RUN apt-get update && apt-get install -y --no-install-recommends busybox-static

FROM ${BASE}
LABEL org.opencontainers.image.title="Iris agent" \
      org.opencontainers.image.description="Runs Tasks on a node as containerd sandboxes"
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
COPY runtimes/images/agent.lock /tmp/
# Packages in a layer of their own: a change of our code leaves it as it is.
RUN PYTHONDONTWRITEBYTECODE= pip install --no-cache-dir --no-deps --require-hashes --only-binary=:all: -r /tmp/agent.lock
# Tasks' set-up and containers that stay are run by it, in images of any kind
COPY --from=busybox /usr/bin/busybox /usr/libexec/iris/busybox
COPY --from=wheel /wheel /tmp/wheel
RUN PYTHONDONTWRITEBYTECODE= pip install --no-cache-dir --no-deps /tmp/wheel/*.whl
# root: containerd's socket belongs to it
USER 0:0
WORKDIR /
ENTRYPOINT ["iris-agent"]
