package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	gotemplate "text/template"

	"templatefix/oracle/template"
)

func executed(text string, data json.RawMessage) (*answer, error) {
	value, err := decode(data)
	if err != nil {
		return nil, err
	}
	t, err := gotemplate.New("").Option("missingkey=zero").Funcs(template.Funcs).Parse(text)
	if err != nil {
		return failed("parse", err), nil
	}
	var out bytes.Buffer
	if err := t.Execute(&out, value); err != nil {
		return failed("exec", err), nil
	}
	return rendered(out.Bytes()), nil
}

// decode makes Go values of JSON: maps, slices, strings, booleans, float64 and nil as they are, and others by one key:
// {"$int": 3} {"$uint": 3} {"$float": "NaN"} {"$bytes": base64} {"$string": base64}
// {"$strings": […]} a []string, {"$ints": […]} an []int, {"$map": {…}} a map[string]string.
func decode(data json.RawMessage) (any, error) {
	if len(data) == 0 {
		return nil, nil
	}
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return nil, err
	}
	return typed(value)
}

func typed(value any) (any, error) {
	switch v := value.(type) {
	case []any:
		for i := range v {
			item, err := typed(v[i])
			if err != nil {
				return nil, err
			}
			v[i] = item
		}
		return slices.Clip(v), nil
	case map[string]any:
		if len(v) == 1 {
			for key, wrapped := range v {
				if convert := wrappers[key]; convert != nil {
					return convert(wrapped)
				}
			}
		}
		for _, key := range slices.Collect(maps.Keys(v)) {
			item, err := typed(v[key])
			if err != nil {
				return nil, err
			}
			v[key] = item
		}
	}
	return value, nil
}

var wrappers = map[string]func(any) (any, error){
	"$int":   func(v any) (any, error) { return strconv.Atoi(number(v)) },
	"$uint":  func(v any) (any, error) { n, err := strconv.ParseUint(number(v), 10, 64); return uint(n), err },
	"$float": func(v any) (any, error) { return strconv.ParseFloat(number(v), 64) },
	"$bytes": func(v any) (any, error) { return base64.StdEncoding.DecodeString(number(v)) },
	"$string": func(v any) (any, error) {
		data, err := base64.StdEncoding.DecodeString(number(v))
		return string(data), err
	},
	"$strings": func(v any) (any, error) { return again[[]string](v) },
	"$ints":    func(v any) (any, error) { return again[[]int](v) },
	"$map":     func(v any) (any, error) { return again[map[string]string](v) },
}

// number is the spelling of a number, given as one or as a string.
func number(v any) string {
	if f, ok := v.(float64); ok {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

func again[T any](v any) (out T, err error) {
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	return out, err
}
