{{/* Labels of every object. */}}
{{- define "iris.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/part-of: iris
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{ include "iris.selector" . }}
{{- end }}

{{/* What tells the operator's Pods from all others, for ever: a Deployment's selector can't change. */}}
{{- define "iris.selector" -}}
app.kubernetes.io/name: iris-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The same of the gateway's Pods. */}}
{{- define "iris.gatewaySelector" -}}
app.kubernetes.io/name: iris-gateway
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* JSON list of the namespaces served, in order, each once. */}}
{{- define "iris.namespaces" -}}
{{ .Values.watchNamespaces | default (list .Release.Namespace) | uniq | toJson }}
{{- end }}

{{/* A name for what is cluster-wide, one per installation. */}}
{{- define "iris.clusterName" -}}
{{ .Release.Namespace }}-iris-operator
{{- end }}

{{/* The operator as the API server names it. */}}
{{- define "iris.operatorUser" -}}
system:serviceaccount:{{ .Release.Namespace }}:iris-operator
{{- end }}

{{/* Reference of an image: (list context image-values). */}}
{{- define "iris.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- $tag := $image.tag | default $root.Chart.AppVersion -}}
{{- with $root.Values.image.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- $image.repository -}}
{{- ternary "@" ":" (hasPrefix "sha256:" $tag) -}}
{{- $tag -}}
{{- end }}

{{/* Pull secrets as Kubernetes wants them. */}}
{{- define "iris.pullSecrets" -}}
{{- range .Values.image.pullSecrets }}
- name: {{ . }}
{{- end }}
{{- end }}

{{/* Spec of the IrisCluster: the user's, with the rest of the values where it says nothing. */}}
{{- define "iris.clusterSpec" -}}
{{- $worker := dict "serviceAccountName" "iris-agent" -}}
{{- with .Values.image.pullSecrets -}}
{{- $_ := set $worker "imagePullSecrets" (include "iris.pullSecrets" $ | fromYamlArray) -}}
{{- end -}}
{{- $ours := dict
  "images" (dict "agent" (include "iris.image" (list . .Values.agent.image)) "pullPolicy" .Values.image.pullPolicy)
  "worker" $worker
  "controller" (dict "port" .Values.service.port "serviceName" .Values.service.name)
-}}
{{- mergeOverwrite $ours (deepCopy .Values.cluster.spec) | toYaml -}}
{{- end }}
