// Package api holds a chat request as Ollama's HTTP API takes it.
//
// The names of types, fields and methods are those of Ollama's API, since templates
// reach them and error sentences and struct prints show them.
package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
)

type ImageData []byte

type Message struct {
	Role       string      `json:"role"`
	Content    string      `json:"content"`
	Thinking   string      `json:"thinking"`
	Images     []ImageData `json:"images"`
	ToolCalls  []ToolCall  `json:"tool_calls"`
	ToolName   string      `json:"tool_name"`
	ToolCallID string      `json:"tool_call_id"`
}

// UnmarshalJSON reads a message; its role is lower-cased.
func (m *Message) UnmarshalJSON(data []byte) error {
	type plain Message
	if err := json.Unmarshal(data, (*plain)(m)); err != nil {
		return err
	}
	m.Role = strings.ToLower(m.Role)
	return nil
}

type ToolCall struct {
	ID       string           `json:"id"`
	Function ToolCallFunction `json:"function"`
}

// Arguments are sorted by name wherever a template shows them, so that a plain map serves.
type ToolCallFunction struct {
	Index     int            `json:"index"`
	Name      string         `json:"name"`
	Arguments map[string]any `json:"arguments"`
}

type Tool struct {
	Type     string       `json:"type"`
	Items    any          `json:"items"`
	Function ToolFunction `json:"function"`
}

type ToolFunction struct {
	Name        string                 `json:"name"`
	Description string                 `json:"description"`
	Parameters  ToolFunctionParameters `json:"parameters"`
}

type ToolFunctionParameters struct {
	Type       string             `json:"type"`
	Defs       any                `json:"$defs"`
	Items      any                `json:"items"`
	Required   []string           `json:"required"`
	Properties *ToolPropertiesMap `json:"properties"`
}

type ToolProperty struct {
	AnyOf       []ToolProperty     `json:"anyOf,omitempty"`
	Type        PropertyType       `json:"type,omitempty"`
	Items       any                `json:"items,omitempty"`
	Description string             `json:"description,omitempty"`
	Enum        []any              `json:"enum,omitempty"`
	Properties  *ToolPropertiesMap `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`
}

var typeScript = map[string]string{
	"string":  "string",
	"number":  "number",
	"integer": "number",
	"boolean": "boolean",
	"array":   "any[]",
	"object":  "Record<string, any>",
	"null":    "null",
}

// ToTypeScriptType names the property's type in TypeScript.
func (p ToolProperty) ToTypeScriptType() string {
	var names []string
	for _, choice := range p.AnyOf {
		names = append(names, choice.ToTypeScriptType())
	}
	if len(names) == 0 {
		for _, t := range p.Type {
			name, known := typeScript[t]
			if !known {
				name = "any"
			}
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "any"
	}
	return strings.Join(names, " | ")
}

// PropertyType is one JSON type or several.
type PropertyType []string

func (t *PropertyType) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*t = PropertyType{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(t))
}

func (t PropertyType) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}

func (t PropertyType) String() string {
	switch len(t) {
	case 0:
		return ""
	case 1:
		return t[0]
	}
	return fmt.Sprint([]string(t))
}

// ToolPropertiesMap keeps properties in the order in which they were given.
type ToolPropertiesMap struct {
	entries *entries
}

type entries struct {
	names  []string
	values map[string]ToolProperty
}

func (m *ToolPropertiesMap) Get(name string) (ToolProperty, bool) {
	if m == nil || m.entries == nil {
		return ToolProperty{}, false
	}
	value, ok := m.entries.values[name]
	return value, ok
}

func (m *ToolPropertiesMap) Set(name string, value ToolProperty) {
	if m.entries == nil {
		m.entries = &entries{values: map[string]ToolProperty{}}
	}
	if _, known := m.entries.values[name]; !known {
		m.entries.names = append(m.entries.names, name)
	}
	m.entries.values[name] = value
}

func (m *ToolPropertiesMap) Len() int {
	if m == nil || m.entries == nil {
		return 0
	}
	return len(m.entries.names)
}

func (m *ToolPropertiesMap) All() iter.Seq2[string, ToolProperty] {
	return func(yield func(string, ToolProperty) bool) {
		if m == nil || m.entries == nil {
			return
		}
		for _, name := range m.entries.names {
			if !yield(name, m.entries.values[name]) {
				return
			}
		}
	}
}

func (m *ToolPropertiesMap) ToMap() map[string]ToolProperty {
	if m == nil || m.entries == nil {
		return nil
	}
	return m.entries.values
}

func (m *ToolPropertiesMap) UnmarshalJSON(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if token, err := decoder.Token(); err != nil || token == nil {
		return err
	} else if token != json.Delim('{') {
		return fmt.Errorf("properties must be an object, not %v", token)
	}
	m.entries = &entries{values: map[string]ToolProperty{}}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		var value ToolProperty
		if err := decoder.Decode(&value); err != nil {
			return err
		}
		m.Set(name.(string), value)
	}
	return nil
}

func (m ToolPropertiesMap) MarshalJSON() ([]byte, error) {
	if m.entries == nil {
		return []byte("null"), nil
	}
	var out bytes.Buffer
	out.WriteByte('{')
	for i, name := range m.entries.names {
		if i > 0 {
			out.WriteByte(',')
		}
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		out.Write(longEscapes(key))
		out.WriteByte(':')
		value, err := json.Marshal(m.entries.values[name])
		if err != nil {
			return nil, err
		}
		out.Write(value)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// longEscapes spells backspace and form feed as Ollama's ordered map does in its keys.
func longEscapes(quoted []byte) []byte {
	var out []byte
	for i := 0; i < len(quoted); i++ {
		if quoted[i] != '\\' {
			out = append(out, quoted[i])
			continue
		}
		i++
		switch quoted[i] {
		case 'b':
			out = append(out, `\u0008`...)
		case 'f':
			out = append(out, `\u000c`...)
		default:
			out = append(out, '\\', quoted[i])
		}
	}
	return out
}
