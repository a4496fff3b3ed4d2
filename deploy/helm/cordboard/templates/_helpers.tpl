{{/* Names. A pod's name, NAME-0, is a cluster.node: 31 characters at most. */}}
{{- define "cordboard.name" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}{{- $name = .Release.Name -}}
{{- else -}}{{- $name = printf "%s-%s" .Release.Name $name -}}{{- end -}}
{{- $name | trunc 27 | trimSuffix "-" -}}
{{- end -}}

{{- define "cordboard.selector" -}}
app.kubernetes.io/name: cordboard
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "cordboard.labels" -}}
{{ include "cordboard.selector" . }}
app.kubernetes.io/version: {{ default .Chart.AppVersion .Values.image.tag | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* The port of an address such as nats://10.0.0.5:4222. */}}
{{- define "cordboard.port" -}}
{{- $host := (urlParse .).host -}}
{{- if regexMatch ":[0-9]+$" $host }}{{ regexFind "[0-9]+$" $host }}
{{- else if hasPrefix "https:" . }}443{{ else if hasPrefix "http:" . }}80{{ else }}4222{{ end -}}
{{- end -}}

{{/* The chart's share of the engine's configuration. */}}
{{- define "cordboard.own-config" -}}
health:
  host: 0.0.0.0
  port: {{ .Values.healthPort }}
  {{- with .Values.allowedHosts }}
  allowed_hosts: {{ toJson . }}
  {{- end }}
admin:
  token: ${file:/run/secrets/admin_token}
asterisk:
  url: {{ required "asterisk.url is missing: the address of Asterisk's HTTP server" .Values.asterisk.url | quote }}
  username: {{ .Values.asterisk.username | quote }}
  password: ${file:/run/secrets/ari_password}
  app: {{ .Values.asterisk.app | quote }}
audiosocket:
  host: 0.0.0.0
  port: {{ .Values.audiosocketPort }}
  advertise_host: ${POD_IP}
  {{- with .Values.asterisk.allowFrom }}
  allow_from: {{ toJson . }}
  {{- end }}
calls:
  directory: /app/var/calls
  shutdown_grace_ms: {{ mul .Values.graceSeconds 1000 }}
  {{- if .Values.postgres.host }}
  index:
    enabled: true
    database: {{ printf "postgresql://%s:${file:/run/secrets/postgres_password}@%s:%v/%s" (toString .Values.postgres.user) .Values.postgres.host .Values.postgres.port .Values.postgres.database | quote }}
  {{- end }}
cluster:
  node: ${CORDBOARD_NODE}
  nats:
    servers: {{ required "nats.servers is missing: the addresses of the NATS servers" (ternary "" (toJson .Values.nats.servers) (empty .Values.nats.servers)) }}
    user: {{ .Values.nats.user | quote }}
    password: ${file:/run/secrets/nats_password}
    replicas: {{ .Values.nats.replicas }}
    {{- if .Values.nats.tlsSecret }}
    tls:
      ca: /run/nats-tls/ca.crt
      {{- if .Values.nats.clientCertificate }}
      certificate: /run/nats-tls/tls.crt
      key: /run/nats-tls/tls.key
      {{- end }}
    {{- end }}
{{- end -}}
