package template

import (
	"encoding/json"

	"templatefix/oracle/api"
)

// The types below carry the names that Ollama gives to what a template sees: they stand in error sentences.

type templateTools []templateTool

func (t templateTools) String() string { return toJSON(t) }

type templateTool struct {
	Type     string               `json:"type"`
	Items    any                  `json:"items,omitempty"`
	Function templateToolFunction `json:"function"`
}

func (t templateTool) String() string { return toJSON(t) }

type templateToolFunction struct {
	Name        string                         `json:"name"`
	Description string                         `json:"description"`
	Parameters  templateToolFunctionParameters `json:"parameters"`
}

type templateToolFunctionParameters struct {
	Type       string             `json:"type"`
	Defs       any                `json:"$defs,omitempty"`
	Items      any                `json:"items,omitempty"`
	Required   []string           `json:"required,omitempty"`
	Properties templateProperties `json:"properties"`
}

type templateProperties map[string]api.ToolProperty

func (t templateProperties) String() string {
	if t == nil {
		return "{}"
	}
	return toJSON(t)
}

type templateArgs map[string]any

func (t templateArgs) String() string {
	if t == nil {
		return "{}"
	}
	return toJSON(t)
}

type templateMessage struct {
	Role       string
	Content    string
	Thinking   string
	Images     []api.ImageData
	ToolCalls  []templateToolCall
	ToolName   string
	ToolCallID string
}

type templateToolCall struct {
	ID       string
	Function templateToolCallFunction
}

type templateToolCallFunction struct {
	Index     int
	Name      string
	Arguments templateArgs
}

// toJSON is empty where a value has no JSON.
func toJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(data)
}

func toolData(tools []api.Tool) templateTools {
	if tools == nil {
		return nil
	}
	out := templateTools{}
	for _, tool := range tools {
		parameters := tool.Function.Parameters
		out = append(out, templateTool{
			Type:  tool.Type,
			Items: tool.Items,
			Function: templateToolFunction{
				Name:        tool.Function.Name,
				Description: tool.Function.Description,
				Parameters: templateToolFunctionParameters{
					Type:       parameters.Type,
					Defs:       parameters.Defs,
					Items:      parameters.Items,
					Required:   parameters.Required,
					Properties: parameters.Properties.ToMap(),
				},
			},
		})
	}
	return out
}

func messageData(messages []api.Message) []*templateMessage {
	var out []*templateMessage
	for _, m := range messages {
		var calls []templateToolCall
		for _, call := range m.ToolCalls {
			f := call.Function
			calls = append(calls, templateToolCall{call.ID, templateToolCallFunction{f.Index, f.Name, f.Arguments}})
		}
		out = append(out, &templateMessage{m.Role, m.Content, m.Thinking, m.Images, calls, m.ToolName, m.ToolCallID})
	}
	return out
}
