# The operator, for people with Docker:
#   docker build -f runtimes/images/operator.Dockerfile -t iris/operator:dev .
# Without Docker: iris-devcluster images operator. A test holds both to the same pins, user and entrypoint.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS wheel
RUN pip install --no-cache-dir hatchling==1.33.0 grpcio-tools==1.85.1
WORKDIR /src
COPY pyproject.toml hatch_build.py README.md ./
COPY operator operator
COPY runtimes/iris_runtimes runtimes/iris_runtimes
RUN python -m hatchling build -t wheel -d /wheel

FROM ${BASE}
LABEL org.opencontainers.image.title="Iris operator" \
      org.opencontainers.image.description="Rents bare-metal GPU nodes, places Tasks on them, gives the nodes back"
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
COPY runtimes/images/operator.lock /tmp/
# Packages in a layer of their own: a change of our code leaves it as it is.
RUN PYTHONDONTWRITEBYTECODE= pip install --no-cache-dir --no-deps --require-hashes --only-binary=:all: -r /tmp/operator.lock
COPY --from=wheel /wheel /tmp/wheel
RUN PYTHONDONTWRITEBYTECODE= pip install --no-cache-dir --no-deps /tmp/wheel/*.whl
USER 65532:65532
WORKDIR /
ENTRYPOINT ["iris-operator"]
