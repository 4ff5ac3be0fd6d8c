# kind, for people who have Docker: same chart, same examples; all that differs is here.
export KUBECONFIG=$PWD/.iris/kubeconfig
CHART_VALUES=(--values .iris/images.yaml --values scripts/kind/values.yaml)
STOP="kind delete cluster --name iris"
command -v docker >/dev/null && docker info >/dev/null 2>&1 || {
  echo "CLUSTER=kind needs a Docker engine, and none answers here: make demo uses none" >&2
  exit 1
}
KIND_VERSION=v0.30.0
kind_program() {
  command -v kind || {
    [ -x .iris/bin/kind ] || GOBIN=$PWD/.iris/bin CGO_ENABLED=0 go install "sigs.k8s.io/kind@$KIND_VERSION"
    printf '%s' "$PWD/.iris/bin/kind"
  }
}
cluster_up() {
  KIND=$(kind_program)
  mkdir -p .iris
  "$KIND" get clusters 2>/dev/null | grep -qx iris ||
    "$KIND" create cluster --name iris --config scripts/kind/cluster.yaml --kubeconfig "$KUBECONFIG"
  "$(program kubectl)" apply -f operator/iris_devcluster/coreweave/data/nodepool_crd.yaml
  # kind's nodes are there already: one is labelled as the Slice's, as CoreWeave would when it had booted.
  "$(program kubectl)" label node iris-worker --overwrite \
    iris-managed=true iris-scale-group= iris-slice-id=default-hello
}
load_images() {
  iris-devcluster images --archive .iris/images --values .iris/images.yaml
  local archive
  for archive in .iris/images/*.tar; do "$KIND" load image-archive "$archive" --name iris; done
}
