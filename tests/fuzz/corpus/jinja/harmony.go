g{{- /* channels and a developer message */ -}}
{{- define "signature" }}
type {{ .Function.Name }} = (_: {
{{- range $name, $property := .Function.Parameters.Properties }}
  {{ $name }}: {{ toTypeScriptType $property }},
{{- end }}
}) => any;
{{- end -}}
<|start|>system<|message|>Current date: {{ currentDate }}
{{- if and .IsThinkSet .Think (ne .ThinkLevel "") }}

Reasoning: {{ .ThinkLevel }}
{{- else }}

Reasoning: medium
{{- end }}<|end|>
{{- if or .Tools .System }}<|start|>developer<|message|>
{{- if .Tools }}# Tools
{{- range .Tools }}{{ template "signature" . }}{{ end }}
{{- end }}
{{- with .System }}# Instructions

{{ . }}
{{- end -}}<|end|>
{{- end }}
{{- $lastUserIdx := -1 }}
{{- range $i, $msg := .Messages }}
{{- if eq $msg.Role "user" }}{{- $lastUserIdx = $i }}{{ end -}}
{{- end -}}
{{- range $i, $msg := .Messages }}
{{- $last := eq (len (slice $.Messages $i)) 1 -}}
{{- if (ne $msg.Role "system") -}}
{{- if eq $msg.Role "tool" -}}
<|start|>functions.{{ $msg.ToolName }} to=assistant<|message|>{{ $msg.Content }}<|end|>
{{- else if eq $msg.Role "assistant" -}}
{{- if and $msg.Thinking (gt $i $lastUserIdx) -}}<|start|>assistant<|channel|>analysis<|message|>{{ $msg.Thinking }}<|end|>{{- end -}}
{{- if gt (len $msg.Content) 0 -}}<|start|>assistant<|channel|>final<|message|>{{ $msg.Content }}<|end|>{{- end -}}
{{- range $j, $toolCall := $msg.ToolCalls -}}
<|start|>assistant to=functions.{{ $toolCall.Function.Name }}<|channel|>commentary json<|message|>{{ $toolCall.Function.Arguments }}<|call|>
{{- end -}}
{{- else -}}
<|start|>{{ $msg.Role }}<|message|>{{ $msg.Content }}<|end|>
{{- end -}}
{{- end -}}
{{- if and $last (ne $msg.Role "assistant") }}<|start|>assistant{{ end -}}
{{- end -}}