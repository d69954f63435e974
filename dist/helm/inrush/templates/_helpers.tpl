{{- /* Name of the objects of the node's part, at most 53 characters, so that suffixes fit. */ -}}
{{- define "inrush.name" -}}
{{- .Values.nameOverride | default .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- end -}}

{{- define "inrush.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- /* Labels by which a part's pods are chosen: they can never change. (list . "node") */ -}}
{{- define "inrush.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: inrush
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "inrush.labels" -}}
{{- $root := index . 0 -}}
{{ include "inrush.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end -}}

{{- define "inrush.probes" -}}
startupProbe:
  httpGet:
    path: /livez
    port: health
  periodSeconds: 2
  failureThreshold: 150
livenessProbe:
  httpGet:
    path: /livez
    port: health
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet:
    path: /readyz
    port: health
  periodSeconds: 10
  timeoutSeconds: 5
{{- end -}}

{{- define "inrush.token" -}}
- name: SPLUNK_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ .Values.splunk.secret.name }}
      key: {{ .Values.splunk.secret.key }}
{{- end -}}
