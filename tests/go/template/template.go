// Package template renders a chat request through a Go template in the way that Ollama's server does.
package template

import (
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
	"time"

	"templatefix/oracle/api"
)

// Today is the day that templates print.
var Today = time.Now()

// Funcs are the functions that Ollama adds to Go's.
var Funcs = template.FuncMap{
	"json":          toJSON,
	"currentDate":   func(...string) string { return Today.Format(time.DateOnly) },
	"yesterdayDate": func(...string) string { return Today.AddDate(0, 0, -1).Format(time.DateOnly) },
	"toTypeScriptType": func(v any) string {
		switch property := v.(type) {
		case api.ToolProperty:
			return property.ToTypeScriptType()
		case *api.ToolProperty:
			if property != nil {
				return property.ToTypeScriptType()
			}
		}
		return "any"
	},
}

// Request is one chat request; Think nil means that it says nothing about thinking.
type Request struct {
	Messages   []api.Message `json:"messages"`
	Tools      []api.Tool    `json:"tools"`
	Think      *bool         `json:"think"`
	ThinkLevel string        `json:"think_level"`
}

// Template is a parsed chat template.
type Template struct {
	text string
	full *template.Template
	last *template.Template // of a legacy template: the full one up to its response
	vars []string
}

// Parse reads a template with Ollama's functions and refusals.
func Parse(text string) (*Template, error) {
	full, err := template.New("").Option("missingkey=zero").Funcs(Funcs).Parse(text)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, t := range full.Templates() {
		if err := collect(t.Root, names); err != nil {
			return nil, err
		}
	}
	t := &Template{text: text, full: full, vars: slices.Sorted(maps.Keys(names))}
	if t.Legacy() && !names["response"] { // Ollama adds one at the end, and counts its name from then on
		names["response"] = true
		t.vars = slices.Sorted(maps.Keys(names))
		field := &parse.FieldNode{NodeType: parse.NodeField, Ident: []string{"Response"}}
		command := &parse.CommandNode{NodeType: parse.NodeCommand, Args: []parse.Node{field}}
		pipe := &parse.PipeNode{NodeType: parse.NodePipe, Cmds: []*parse.CommandNode{command}}
		full.Root.Nodes = append(full.Root.Nodes, &parse.ActionNode{NodeType: parse.NodeAction, Pipe: pipe})
	}
	return t, nil
}

// Legacy tells whether the template is run once for each exchange.
func (t *Template) Legacy() bool { return !slices.Contains(t.vars, "messages") }

// collect gathers the lower-cased names of fields and variables; declared variables do not count.
func collect(node parse.Node, names map[string]bool) error {
	switch n := node.(type) {
	case *parse.ListNode:
		for _, child := range n.Nodes {
			if err := collect(child, names); err != nil {
				return err
			}
		}
	case *parse.TemplateNode:
		if n.Pipe == nil {
			return errors.New("undefined template specified")
		}
		return collect(n.Pipe, names)
	case *parse.ActionNode:
		return collect(n.Pipe, names)
	case *parse.IfNode, *parse.WithNode, *parse.RangeNode:
		branch := branchOf(n)
		parts := []parse.Node{branch.Pipe, branch.List}
		if branch.ElseList != nil {
			parts = append(parts, branch.ElseList)
		}
		for _, part := range parts {
			if err := collect(part, names); err != nil {
				return err
			}
		}
	case *parse.PipeNode:
		for _, command := range n.Cmds {
			for _, arg := range command.Args {
				if err := collect(arg, names); err != nil {
					return err
				}
			}
		}
	case *parse.FieldNode:
		addLower(n.Ident, names)
	case *parse.VariableNode:
		addLower(n.Ident, names)
	}
	return nil
}

func addLower(idents []string, names map[string]bool) {
	for _, ident := range idents {
		names[strings.ToLower(ident)] = true
	}
}

// branchOf is the common part of an if, with or range, and nil of any other node.
func branchOf(node parse.Node) *parse.BranchNode {
	switch n := node.(type) {
	case *parse.IfNode:
		return &n.BranchNode
	case *parse.WithNode:
		return &n.BranchNode
	case *parse.RangeNode:
		return &n.BranchNode
	}
	return nil
}

// Execute writes the prompt.
func (t *Template) Execute(w io.Writer, request *Request) error {
	system, messages := collate(request.Messages)
	data := map[string]any{
		"System":     system,
		"Response":   "",
		"Think":      request.Think != nil && *request.Think,
		"ThinkLevel": request.ThinkLevel,
		"IsThinkSet": request.Think != nil,
	}
	if t.Legacy() {
		return t.exchanges(w, messages, data)
	}
	data["Messages"] = messageData(messages)
	data["Tools"] = toolData(request.Tools)
	return t.full.Execute(w, data)
}

// collate joins neighbours of one role, tool results apart, and gathers the system texts.
func collate(messages []api.Message) (system string, out []api.Message) {
	var systems []string
	for _, m := range messages {
		if m.Role == "system" {
			systems = append(systems, m.Content)
		}
		if last := len(out) - 1; last >= 0 && m.Role != "tool" && out[last].Role == m.Role {
			out[last].Content += "\n\n" + m.Content
		} else {
			out = append(out, m)
		}
	}
	return strings.Join(systems, "\n\n"), out
}

// exchanges runs a legacy template once for each exchange, the last time up to the response.
func (t *Template) exchanges(w io.Writer, messages []api.Message, data map[string]any) error {
	set := func(system, prompt, response string) {
		data["System"], data["Prompt"], data["Response"] = system, prompt, response
	}
	set("", "", "")
	run := func() error {
		if err := t.full.Execute(w, data); err != nil {
			return err
		}
		set("", "", "")
		return nil
	}
	for _, m := range messages {
		answered := data["Response"] != ""
		if m.Role == "system" && (answered || data["Prompt"] != "") || m.Role == "user" && answered {
			if err := run(); err != nil {
				return err
			}
		}
		switch m.Role {
		case "system":
			data["System"] = m.Content
		case "user":
			data["Prompt"] = m.Content
		case "assistant":
			data["Response"] = m.Content
		}
	}
	if t.last == nil {
		t.last = template.Must(template.New("").AddParseTree("", &parse.Tree{Root: upToResponse(t.full.Root)}))
	}
	return t.last.Execute(w, data)
}
