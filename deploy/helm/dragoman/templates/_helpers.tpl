{{/* The release's name, with the chart's in it; Kubernetes allows 63 characters. */}}
{{- define "dragoman.fullname" -}}
{{- $name := ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) (contains .Chart.Name .Release.Name) -}}
{{- $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "dragoman.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "dragoman.labels" -}}
{{ include "dragoman.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end -}}

{{- define "dragoman.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "dragoman.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "dragoman.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* files/settings.json has the names of all settings, and of those that are gone. */}}
{{- define "dragoman.settings" -}}
{{- $known := .Files.Get "files/settings.json" | fromJson -}}
{{- range $name, $value := .Values.settings }}
{{- with index $known.retired $name -}}
{{- fail (printf "settings.%s is no setting any more: %s" $name .) -}}
{{- end -}}
{{- if not (has $name $known.names) -}}
{{- fail (printf "settings.%s: there is no such setting" $name) -}}
{{- end }}
- name: {{ printf "DRAGOMAN_%s" (upper $name) }}
  value: {{ include "dragoman.text" $value | quote }}
{{- end }}
{{- end -}}

{{/* The later of two variables of one name would win, also over the values of the grace period and the probes. */}}
{{- define "dragoman.extraEnv" -}}
{{- $given := concat (keys .Values.settings) (list "host" "port") -}}
{{- if or .Values.model.existingClaim .Values.publicModels -}}
{{- $given = concat $given (list "model" "models") -}}
{{- end -}}
{{- range .Values.extraEnv -}}
{{- $name := required "extraEnv: an entry has no name" .name | lower -}}
{{- if and (hasPrefix "dragoman_" $name) (has (trimPrefix "dragoman_" $name) $given) -}}
{{- fail (printf "extraEnv: %s has its value from the chart or its settings" .name) -}}
{{- end -}}
{{- end -}}
{{- toYaml .Values.extraEnv -}}
{{- end -}}

{{/* Not empty if there is a volume at /cache. */}}
{{- define "dragoman.cached" -}}
{{- if and .Values.publicModels .Values.model.existingClaim -}}
{{- fail "publicModels and model.existingClaim: only one of them can be set" -}}
{{- end -}}
{{- if or .Values.cache.enabled .Values.cache.existingClaim .Values.publicModels -}}
yes
{{- end -}}
{{- end -}}

{{/* Helm reads every number as a float and would write a million as 1e+06. */}}
{{- define "dragoman.text" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) -}}
{{- int64 . -}}
{{- else -}}
{{- . -}}
{{- end -}}
{{- end -}}
