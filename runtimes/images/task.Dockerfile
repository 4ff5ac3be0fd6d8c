# The examples' image, for people with Docker:
#   docker build -f runtimes/images/task.Dockerfile -t iris/task:dev .
# Without Docker: iris-devcluster images task.
FROM busybox:1.36.1-musl
LABEL org.opencontainers.image.title="Iris example task" \
      org.opencontainers.image.description="A static busybox"
WORKDIR /
CMD ["/bin/sh"]
