package main

import (
	"reflect"
	gotemplate "text/template"
	"text/template/parse"

	"templatefix/oracle/template"
)

type node struct {
	Type   string `json:"type"`
	Pos    int    `json:"pos"`
	String string `json:"string"`
}

// parsed shows the main template's nodes in pre-order, and each associated template as Go prints it.
func parsed(text string) *answer {
	t, err := gotemplate.New("").Funcs(template.Funcs).Parse(text)
	if err != nil {
		return failed("parse", err)
	}
	a := &answer{OK: true, Templates: map[string]string{}}
	for _, associated := range t.Templates() {
		a.Templates[associated.Name()] = associated.Root.String()
	}
	a.add(t.Root)
	return a
}

func (a *answer) add(n parse.Node) {
	a.Nodes = append(a.Nodes, node{reflect.TypeOf(n).Elem().Name(), int(n.Position()), n.String()})
	switch n := n.(type) {
	case *parse.ListNode:
		for _, child := range n.Nodes {
			a.add(child)
		}
	case *parse.ActionNode:
		a.add(n.Pipe)
	case *parse.TemplateNode:
		if n.Pipe != nil {
			a.add(n.Pipe)
		}
	case *parse.IfNode:
		a.addBranch(&n.BranchNode)
	case *parse.WithNode:
		a.addBranch(&n.BranchNode)
	case *parse.RangeNode:
		a.addBranch(&n.BranchNode)
	case *parse.PipeNode:
		for _, variable := range n.Decl {
			a.add(variable)
		}
		for _, command := range n.Cmds {
			a.add(command)
		}
	case *parse.CommandNode:
		for _, arg := range n.Args {
			a.add(arg)
		}
	case *parse.ChainNode:
		a.add(n.Node)
	}
}

func (a *answer) addBranch(n *parse.BranchNode) {
	a.add(n.Pipe)
	a.add(n.List)
	if n.ElseList != nil {
		a.add(n.ElseList)
	}
}
