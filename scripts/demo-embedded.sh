# The embedded cluster: real Kubernetes and a simulated CoreWeave on this machine, no Docker.
export KUBECONFIG=$PWD/.iris/kubeconfig
CHART_VALUES=(--values .iris/images.yaml)
STOP="make cluster-down"
cluster_up() { iris-devcluster up && iris-devcluster cloud start; }
load_images() { iris-devcluster images --values .iris/images.yaml; }
