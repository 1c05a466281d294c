package template

import (
	"slices"
	"strings"
	"text/template/parse"
)

// Derived is what the server reads off a template's tree.
type Derived struct {
	Vars         []string `json:"vars"`
	Capabilities []string `json:"capabilities"`
	ToolTag      string   `json:"tool_tag"`
	ThinkOpen    string   `json:"think_open"`
	ThinkClose   string   `json:"think_close"`
	RoundTrip    bool     `json:"round_trip"`
	Legacy       bool     `json:"legacy"`
}

// Derive reads it.
func (t *Template) Derive() Derived {
	d := Derived{Vars: t.vars, Capabilities: []string{}, ToolTag: t.toolTag(), Legacy: t.Legacy()}
	finder := thinkFinder{}
	finder.visit(t.full.Root)
	d.ThinkOpen, d.ThinkClose = finder.open, finder.close
	tools := slices.Contains(t.vars, "tools")
	for _, capability := range []struct {
		name string
		has  bool
	}{
		{"tools", tools},
		{"insert", slices.Contains(t.vars, "suffix")},
		{"thinking", d.ThinkOpen != "" && d.ThinkClose != ""},
	} {
		if capability.has {
			d.Capabilities = append(d.Capabilities, capability.name)
		}
	}
	d.RoundTrip = tools && slices.Contains(t.vars, "toolcalls") &&
		(strings.Contains(t.text, `eq .Role "tool"`) ||
			strings.Contains(t.text, "tool_response") ||
			strings.Contains(t.text, "TOOL_RESULTS"))
	return d
}

func (t *Template) toolTag() string {
	tag := ""
	if node := callsIf(t.full.Root); node != nil {
		tag, _ = firstText(node.List)
	}
	tag = strings.ReplaceAll(tag, "\r\n", "\n")
	tag, _, _ = strings.Cut(tag, "{")
	if tag = strings.TrimSpace(tag); tag == "" {
		return "{"
	}
	return tag
}

// callsIf is the first `if` with `.ToolCalls` among the operands of its condition.
func callsIf(list *parse.ListNode) *parse.IfNode {
	for _, node := range list.Nodes {
		if n, ok := node.(*parse.IfNode); ok {
			for _, command := range n.Pipe.Cmds {
				for _, arg := range command.Args {
					if field, ok := arg.(*parse.FieldNode); ok && slices.Contains(field.Ident, "ToolCalls") {
						return n
					}
				}
			}
		}
		branch := branchOf(node)
		if branch == nil {
			continue
		}
		for _, part := range []*parse.ListNode{branch.List, branch.ElseList} {
			if part == nil {
				continue
			}
			if found := callsIf(part); found != nil {
				return found
			}
		}
	}
	return nil
}

// firstText is the first text that is not blank; the search stops at an action and behind a branch without one.
func firstText(list *parse.ListNode) (text string, stop bool) {
	for _, node := range list.Nodes {
		switch n := node.(type) {
		case *parse.TextNode:
			if strings.TrimSpace(string(n.Text)) != "" {
				return string(n.Text), true
			}
		case *parse.ActionNode:
			return "", true
		case *parse.IfNode, *parse.WithNode, *parse.RangeNode:
			branch := branchOf(n)
			text, _ := firstText(branch.List)
			if text == "" && branch.ElseList != nil {
				text, _ = firstText(branch.ElseList)
			}
			return text, true
		}
	}
	return "", false
}

// thinkFinder looks for `.Thinking` in a range over `.Messages` and takes the texts at both ends of the list around it.
type thinkFinder struct {
	ranges      []*parse.RangeNode
	lists       []*parse.ListNode
	open, close string
}

func (f *thinkFinder) visit(node parse.Node) {
	switch n := node.(type) {
	case *parse.ListNode:
		f.lists = append(f.lists, n)
		for _, child := range n.Nodes {
			f.visit(child)
		}
		f.lists = f.lists[:len(f.lists)-1]
	case *parse.RangeNode:
		f.ranges = append(f.ranges, n)
		f.branch(&n.BranchNode)
		f.ranges = f.ranges[:len(f.ranges)-1]
	case *parse.IfNode:
		f.branch(&n.BranchNode)
	case *parse.WithNode:
		f.branch(&n.BranchNode)
	case *parse.ActionNode:
		f.visit(n.Pipe)
	case *parse.TemplateNode:
		f.visit(n.Pipe)
	case *parse.PipeNode:
		for _, command := range n.Cmds {
			for _, arg := range command.Args {
				f.visit(arg)
			}
		}
	case *parse.FieldNode:
		if n.Ident[0] == "Thinking" {
			f.found()
		}
	}
}

func (f *thinkFinder) branch(n *parse.BranchNode) {
	f.visit(n.Pipe)
	f.visit(n.List)
	if n.ElseList != nil {
		f.visit(n.ElseList)
	}
}

func (f *thinkFinder) found() {
	if len(f.ranges) == 0 || !mentions(f.ranges[len(f.ranges)-1].Pipe, "Messages") {
		return
	}
	nodes := f.lists[len(f.lists)-1].Nodes
	if text, ok := nodes[0].(*parse.TextNode); ok {
		f.open = strings.TrimSpace(string(text.Text))
	}
	if text, ok := nodes[len(nodes)-1].(*parse.TextNode); ok {
		f.close = strings.TrimSpace(string(text.Text))
	}
}

func mentions(pipe *parse.PipeNode, field string) bool {
	for _, command := range pipe.Cmds {
		for _, arg := range command.Args {
			switch n := arg.(type) {
			case *parse.FieldNode:
				if n.Ident[0] == field {
					return true
				}
			case *parse.PipeNode:
				if mentions(n, field) {
					return true
				}
			}
		}
	}
	return false
}
