// Command oracle answers with what real Go makes of a template.
//
// It reads JSON lines on standard input and writes one JSON line for each.
//
//	{"op":"parse","template":…}               the tree as Go prints it, node by node
//	{"op":"exec","template":…,"data":…}       the template over plain data, see value.go
//	{"op":"chat","template":…,"messages":…}   a chat request as Ollama's server renders it
//	{"op":"derive","template":…}              what Ollama's server reads off the tree
//	{"op":"time","template":…,"repeat":…}     a chat request: the shortest parse and render, in microseconds
//
// With -batch, each line is a chat request without "op"; the answers are those of `templatefix render --batch`.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"templatefix/oracle/template"
)

// answer is one line of output; bytes that are not UTF-8 go out as base64.
type answer struct {
	ID           json.RawMessage   `json:"id,omitempty"`
	OK           bool              `json:"ok"`
	Output       *string           `json:"output,omitempty"`
	OutputBase64 *string           `json:"output_base64,omitempty"`
	Stage        string            `json:"stage,omitempty"`
	Error        *string           `json:"error,omitempty"`
	ErrorBase64  *string           `json:"error_base64,omitempty"`
	Nodes        []node            `json:"nodes,omitempty"`
	Templates    map[string]string `json:"templates,omitempty"`
	ParseUS      float64           `json:"parse_us,omitempty"`
	RenderUS     float64           `json:"render_us,omitempty"`
	*template.Derived
}

func rendered(output []byte) *answer {
	a := &answer{OK: true}
	a.Output, a.OutputBase64 = text(output)
	return a
}

func failed(stage string, err any) *answer {
	a := &answer{Stage: stage}
	a.Error, a.ErrorBase64 = text([]byte(fmt.Sprint(err)))
	return a
}

func text(data []byte) (plain, encoded *string) {
	s := string(data)
	if utf8.Valid(data) {
		return &s, nil
	}
	s = base64.StdEncoding.EncodeToString(data)
	return nil, &s
}

type question struct {
	Op       string          `json:"op"`
	ID       json.RawMessage `json:"id"`
	Template string          `json:"template"`
	Base64   bool            `json:"base64"` // the template's text is base64
	Data     json.RawMessage `json:"data"`
	Date     string          `json:"date"`
	Repeat   int             `json:"repeat"`
	template.Request
}

func main() {
	batch := flag.Bool("batch", false, "read chat requests without an op")
	date := flag.String("date", "", "the day that templates print, YYYY-MM-DD")
	flag.Parse()
	if err := setDate(*date); err != nil {
		fatal(err)
	}
	usual = template.Today
	if err := serve(os.Stdin, os.Stdout, *batch); err != nil {
		fatal(err)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "oracle:", err)
	os.Exit(2)
}

// usual is the day for questions that name none.
var usual = template.Today

func setDate(date string) error {
	if date == "" {
		template.Today = usual
		return nil
	}
	day, err := time.Parse(time.DateOnly, date)
	template.Today = day
	return err
}

func serve(in io.Reader, out io.Writer, batch bool) error {
	reader := bufio.NewReaderSize(in, 1<<20)
	writer := bufio.NewWriterSize(out, 1<<16)
	defer writer.Flush()
	encoder := json.NewEncoder(writer)
	encoder.SetEscapeHTML(false)
	chats := chatCache{}
	for {
		line, end := reader.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var q question
			if err := json.Unmarshal(line, &q); err != nil {
				return fmt.Errorf("unreadable line %.200q: %w", line, err)
			}
			if batch {
				q.Op = "chat"
			}
			a, err := reply(&q, chats)
			if err != nil {
				return err
			}
			a.ID = q.ID
			if err := encoder.Encode(a); err != nil {
				return err
			}
		}
		if end == io.EOF {
			return nil
		} else if end != nil {
			return end
		}
		if !batch && reader.Buffered() == 0 {
			if err := writer.Flush(); err != nil {
				return err
			}
		}
	}
}

func reply(q *question, chats chatCache) (a *answer, err error) {
	if err := setDate(q.Date); err != nil {
		return nil, err
	}
	if q.Base64 {
		data, err := base64.StdEncoding.DecodeString(q.Template)
		if err != nil {
			return nil, err
		}
		q.Template = string(data)
	}
	defer func() {
		if fault := recover(); fault != nil {
			a, err = failed("exec", fault), nil
		}
	}()
	switch q.Op {
	case "parse":
		return parsed(q.Template), nil
	case "exec":
		return executed(q.Template, q.Data)
	case "chat":
		return chats.render(q), nil
	case "time":
		return timed(q), nil
	case "derive":
		t, err := template.Parse(q.Template)
		if err != nil {
			return failed("parse", err), nil
		}
		derived := t.Derive()
		return &answer{OK: true, Derived: &derived}, nil
	}
	return nil, fmt.Errorf("unknown op %q", q.Op)
}

// chatCache holds each distinct template once.
type chatCache map[string]*parsedChat

type parsedChat struct {
	template *template.Template
	err      error
}

func (c chatCache) render(q *question) *answer {
	entry := c[q.Template]
	if entry == nil {
		entry = &parsedChat{}
		entry.template, entry.err = template.Parse(q.Template)
		c[q.Template] = entry
	}
	if entry.err != nil {
		return failed("parse", entry.err)
	}
	var out bytes.Buffer
	if err := entry.template.Execute(&out, &q.Request); err != nil {
		return failed("exec", err)
	}
	return rendered(out.Bytes())
}

func timed(q *question) *answer {
	a := &answer{OK: true}
	for range q.Repeat {
		start := time.Now()
		t, err := template.Parse(q.Template)
		if err != nil {
			return failed("parse", err)
		}
		between := time.Now()
		var out bytes.Buffer
		if err := t.Execute(&out, &q.Request); err != nil {
			return failed("exec", err)
		}
		a.ParseUS = shorter(a.ParseUS, between.Sub(start))
		a.RenderUS = shorter(a.RenderUS, time.Since(between))
	}
	return a
}

func shorter(best float64, taken time.Duration) float64 {
	micros := float64(taken.Nanoseconds()) / 1000
	if best == 0 || micros < best {
		return micros
	}
	return best
}
