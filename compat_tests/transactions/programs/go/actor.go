// Command actor is what stdin says: a producer, a reader or a copier of franz-go. See
// tests/clients/transactions/programs/actor.py.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	pollTime    = 50 * time.Millisecond
	fetchWait   = 50 * time.Millisecond
	metadataAge = 500 * time.Millisecond
	waitTime    = 30 * time.Second
	recordsMax  = 20
)

type command struct {
	Do              string      `json:"do"`
	Name            string      `json:"name"`
	Servers         string      `json:"servers"`
	TransactionalID string      `json:"transactional_id"`
	TimeoutMs       int         `json:"timeout_ms"`
	Isolation       string      `json:"isolation"`
	Partitions      []partition `json:"partitions"`
	Partition       partition   `json:"partition"`
	Value           string      `json:"value"`
	Group           string      `json:"group"`
	Source          string      `json:"source"`
	Target          string      `json:"target"`
	SessionMs       int         `json:"session_ms"`
	HeartbeatMs     int         `json:"heartbeat_ms"`
}

// A partition is told as a pair.
type partition struct {
	Topic  string
	Number int32
}

func (p *partition) UnmarshalJSON(line []byte) error {
	return json.Unmarshal(line, &[]any{&p.Topic, &p.Number})
}

type told struct{ name string }

func (t told) say(event string, details map[string]any) {
	line := map[string]any{"event": event, "by": t.name}
	for key, value := range details {
		line[key] = value
	}
	written, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(append(written, '\n')) // In one piece.
}

func (t told) outcome(err error) {
	if err == nil {
		t.say("done", nil)
		return
	}
	t.say("refused", map[string]any{"reason": reason(err)})
}

func reason(err error) string {
	var refusal *kerr.Error
	if errors.As(err, &refusal) {
		return refusal.Message
	}
	return fmt.Sprintf("%T: %v", err, err)
}

func main() {
	commands := make(chan command)
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			var next command
			if err := json.Unmarshal(lines.Bytes(), &next); err != nil {
				panic(err)
			}
			commands <- next
		}
		os.Exit(0)
	}()
	for asked := range commands {
		tell := told{asked.Name}
		switch asked.Do {
		case "produce":
			produce(asked, tell, commands)
		case "read":
			read(asked, tell, commands)
		default:
			(&copier{asked: asked, told: tell, commands: commands}).live()
		}
		tell.say("closed", nil)
	}
}

func milliseconds(count int) time.Duration { return time.Duration(count) * time.Millisecond }

func transactional(asked command) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(asked.Servers),
		kgo.TransactionalID(asked.TransactionalID),
		kgo.TransactionTimeout(milliseconds(asked.TimeoutMs)),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(metadataAge / 5),
		kgo.MetadataMaxAge(metadataAge),
	}
}

func must[T any](made T, err error) T {
	if err != nil {
		panic(err)
	}
	return made
}
