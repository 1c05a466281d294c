package template

import (
	"slices"
	"text/template/parse"
)

// cutter drops what stands behind the first `.Response`, in reading order.
//
// Ollama does not look into conditions, and fails where the cut would take a whole else branch away:
// so does this (by a panic).
type cutter struct {
	done bool
}

func upToResponse(root *parse.ListNode) *parse.ListNode {
	copied := root.CopyList()
	(&cutter{}).list(copied)
	return copied
}

func (c *cutter) list(list *parse.ListNode) {
	list.Nodes = slices.DeleteFunc(list.Nodes, func(n parse.Node) bool { return !c.keeps(n) })
}

// keeps cuts within a node and tells whether anything of it stays.
func (c *cutter) keeps(node parse.Node) bool {
	if field, ok := node.(*parse.FieldNode); ok && slices.Contains(field.Ident, "Response") {
		c.done = true
		return true
	}
	if c.done {
		return false
	}
	switch n := node.(type) {
	case *parse.IfNode, *parse.WithNode, *parse.RangeNode:
		branch := branchOf(n)
		c.list(branch.List)
		if branch.ElseList != nil {
			if c.done {
				panic("interface conversion: parse.Node is nil, not *parse.ListNode")
			}
			c.list(branch.ElseList)
		}
	case *parse.ActionNode:
		return c.keeps(n.Pipe)
	case *parse.PipeNode:
		for _, command := range n.Cmds {
			command.Args = slices.DeleteFunc(command.Args, func(a parse.Node) bool { return !c.keeps(a) })
			if len(command.Args) == 0 {
				return false
			}
		}
	}
	return true
}
