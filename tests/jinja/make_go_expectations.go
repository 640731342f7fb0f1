// Runs Go's own text/template over the Go templates of the test data, with fields as Ollama hands them over, and writes
// what came out to tests/data/jinja/go.json:
//
//	cd tests/jinja && go run make_go_expectations.go
package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"
	"text/template/parse"
)

const data = "../data/jinja/"

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// raw keeps the order of an object's members; it prints as JSON, as Ollama's types do.
type raw json.RawMessage

func (r raw) MarshalJSON() ([]byte, error) { return r, nil }
func (r *raw) UnmarshalJSON(b []byte) error {
	*r = append((*r)[:0], b...)
	return nil
}
func (r raw) String() string {
	b, err := json.Marshal(r)
	must(err)
	return string(b)
}

type property struct {
	Type        string   `json:"type"`
	Description string   `json:"description,omitempty"`
	Enum        []string `json:"enum,omitempty"`
	all         raw
}

func (p property) MarshalJSON() ([]byte, error) { return p.all, nil }
func (p *property) UnmarshalJSON(b []byte) error {
	type plain property
	must(json.Unmarshal(b, (*plain)(p)))
	return p.all.UnmarshalJSON(b)
}

type parameters struct {
	Type       string              `json:"type"`
	Required   []string            `json:"required"`
	Properties map[string]property `json:"properties"`
}
type function struct {
	Name        string     `json:"name"`
	Description string     `json:"description"`
	Parameters  parameters `json:"parameters"`
}
type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}
type tools []tool

func marshalled(v any) string {
	b, err := json.Marshal(v)
	must(err)
	return string(b)
}
func (f function) String() string { return marshalled(f) }
func (t tool) String() string     { return marshalled(t) }
func (t tools) String() string    { return marshalled(t) }

type callFunction struct {
	Name      string
	Arguments raw
}
type call struct {
	ID       string
	Function callFunction
}
type message struct {
	Role, Content, Thinking string
	ToolCalls               []call
	ToolName                string
}

type conversation struct {
	Messages []struct {
		Role             string          `json:"role"`
		Content          json.RawMessage `json:"content"`
		ReasoningContent string          `json:"reasoning_content"`
		Name             string          `json:"name"`
		ToolCalls        []struct {
			ID       string `json:"id"`
			Function struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"messages"`
	Tools     tools          `json:"tools"`
	Variables map[string]any `json:"variables"`
}

var functions = template.FuncMap{
	"json":        func(v any) string { return marshalled(v) },
	"currentDate": func() string { return "2025-03-04" },
	"toTypeScriptType": func(p property) string {
		switch p.Type {
		case "integer", "number":
			return "number"
		case "object":
			return "Record<string, any>"
		case "array":
			return "any[]"
		}
		return p.Type
	},
}

// mentions says whether a template names a field anywhere.
func mentions(t *template.Template, field string) bool {
	return strings.Contains(t.Tree.Root.String(), "."+field)
}

func collate(c conversation) (string, []*message) {
	var systems []string
	var merged []*message
	for _, m := range c.Messages {
		var content string
		json.Unmarshal(m.Content, &content)
		if m.Role == "system" {
			systems = append(systems, content)
		}
		var calls []call
		for _, one := range m.ToolCalls {
			arguments := one.Function.Arguments
			var text string
			if json.Unmarshal(arguments, &text) == nil {
				arguments = json.RawMessage(text)
			}
			calls = append(calls, call{one.ID, callFunction{one.Function.Name, raw(arguments)}})
		}
		if n := len(merged); n > 0 && merged[n-1].Role == m.Role && m.Role != "tool" {
			if merged[n-1].Content != "" {
				merged[n-1].Content += "\n\n"
			}
			merged[n-1].Content += content
			continue
		}
		merged = append(merged, &message{m.Role, content, m.ReasoningContent, calls, m.Name})
	}
	return strings.Join(systems, "\n\n"), merged
}

func withoutAfterResponse(list *parse.ListNode, seen *bool) {
	var kept []parse.Node
	for _, node := range list.Nodes {
		if *seen {
			break
		}
		switch n := node.(type) {
		case *parse.ActionNode:
			*seen = strings.Contains(n.Pipe.String(), ".Response")
		case *parse.IfNode:
			withoutAfterResponse(n.List, seen)
			if n.ElseList != nil {
				withoutAfterResponse(n.ElseList, seen)
			}
		}
		kept = append(kept, node)
	}
	list.Nodes = kept
}

func chat(source string, c conversation) (string, error) {
	t, err := template.New("").Option("missingkey=zero").Funcs(functions).Parse(source)
	if err != nil {
		return "", err
	}
	if !mentions(t, "Messages") && !mentions(t, "Response") {
		t = template.Must(template.New("").Funcs(functions).Parse(source + "{{ .Response }}"))
	}
	enabled, set := c.Variables["enable_thinking"].(bool)
	level, _ := c.Variables["reasoning_effort"].(string)
	fields := func(more map[string]any) map[string]any {
		all := map[string]any{"System": "", "Prompt": "", "Response": "", "Suffix": "", "Think": enabled || level != "", "ThinkLevel": level, "IsThinkSet": set || level != ""}
		for k, v := range more {
			all[k] = v
		}
		return all
	}
	system, messages := collate(c)
	var b bytes.Buffer
	if mentions(t, "Messages") {
		err := t.Execute(&b, fields(map[string]any{"System": system, "Messages": messages, "Tools": c.Tools}))
		return b.String(), err
	}
	turn := map[string]any{}
	flush := func(t *template.Template) {
		must(t.Execute(&b, fields(turn)))
		turn = map[string]any{}
	}
	for _, m := range messages {
		switch m.Role {
		case "system":
			if turn["Prompt"] != nil || turn["Response"] != nil {
				flush(t)
			}
			turn["System"] = m.Content
		case "user":
			if turn["Response"] != nil {
				flush(t)
			}
			turn["Prompt"] = m.Content
		case "assistant":
			if m.Content != "" {
				turn["Response"] = m.Content
			}
		}
	}
	open := template.Must(t.Clone())
	tree := open.Tree.Copy()
	seen := false
	withoutAfterResponse(tree.Root, &seen)
	open = template.Must(template.New("").Funcs(functions).AddParseTree("", tree))
	flush(open)
	return b.String(), nil
}

func result(text string, err error) map[string]string {
	if err != nil {
		return map[string]string{"fails": err.Error()}
	}
	return map[string]string{"text": text}
}

func main() {
	var conversations map[string]conversation
	bytesOf := func(path string) []byte {
		b, err := os.ReadFile(path)
		must(err)
		return b
	}
	must(json.Unmarshal(bytesOf(data+"conversations.json"), &conversations))
	delete(conversations, "parts") // Ollama has no parts
	families := map[string]map[string]map[string]string{}
	paths, _ := filepath.Glob(data + "go/*.tmpl")
	sort.Strings(paths)
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".tmpl")
		families[name] = map[string]map[string]string{}
		for key, c := range conversations {
			families[name][key] = result(chat(string(bytesOf(path)), c))
		}
	}
	values := map[string]any{
		"Text": "hello", "Number": 42, "Flag": true, "Empty": "", "None": []string{}, "List": []string{"a", "b", "c"},
		"Map": map[string]any{"key": "value", "n": 1}, "Nested": [][]int{{1, 2}, {3}},
	}
	var expressions []map[string]string
	for _, line := range strings.Split(strings.TrimSpace(string(bytesOf(data+"go/expressions.txt"))), "\n") {
		var b bytes.Buffer
		t, err := template.New("").Option("missingkey=zero").Funcs(functions).Parse(line)
		if err == nil {
			err = t.Execute(&b, values)
		}
		one := result(b.String(), err)
		one["template"] = line
		expressions = append(expressions, one)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	must(encoder.Encode(map[string]any{"variables": values, "expressions": expressions, "families": families}))
	must(os.WriteFile(data+"go.json", out.Bytes(), 0o644))
}
