// Command member is a member of a share group, of franz-go. See
// tests/clients/queues/programs/member.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	pollTime    = 100 * time.Millisecond
	fetchWait   = 50 * time.Millisecond
	metadataAge = 500 * time.Millisecond
	waitTime    = 30 * time.Second
)

var statuses = map[string]kgo.AckStatus{
	"accept":  kgo.AckAccept,
	"release": kgo.AckRelease,
	"reject":  kgo.AckReject,
}

type command struct {
	Do         string   `json:"do"`
	Name       string   `json:"name"`
	Servers    string   `json:"servers"`
	Group      string   `json:"group"`
	Topics     []string `json:"topics"`
	IsExplicit bool     `json:"is_explicit"`
	RecordsMax int32    `json:"records_max"`
	IsStrict   bool     `json:"is_strict"`
	Seconds    float64  `json:"seconds"`
	Places     []place  `json:"places"`
	How        string   `json:"how"`
}

// A place is told as a list.
type place struct {
	Topic  string
	Number int32
	Offset int64
}

func (p *place) UnmarshalJSON(line []byte) error {
	return json.Unmarshal(line, &[]any{&p.Topic, &p.Number, &p.Offset})
}

type partition struct {
	Topic  string
	Number int32
}

type member struct {
	joined   command
	client   *kgo.Client
	commands chan command
	held     map[place]*kgo.Record

	// What the client has told since the last commit, on a goroutine of its own.
	lock     sync.Mutex
	outcomes map[partition]any
}

func main() {
	commands := make(chan command)
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		lines.Buffer(nil, 1<<24)
		for lines.Scan() {
			var next command
			if err := json.Unmarshal(lines.Bytes(), &next); err != nil {
				panic(err)
			}
			commands <- next
		}
		os.Exit(0)
	}()
	for joined := range commands {
		m := &member{joined: joined, commands: commands, outcomes: map[partition]any{}}
		m.live()
	}
}

func (m *member) say(event string, details map[string]any) {
	line := map[string]any{"event": event, "by": m.joined.Name}
	for key, value := range details {
		line[key] = value
	}
	written, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(append(written, '\n')) // In one piece.
}

func (m *member) live() {
	options := []kgo.Opt{
		kgo.SeedBrokers(m.joined.Servers),
		kgo.ShareGroup(m.joined.Group),
		kgo.ConsumeTopics(m.joined.Topics...),
		kgo.ShareMaxRecords(m.joined.RecordsMax),
		kgo.ShareAckCallback(m.note),
		kgo.MaxConcurrentFetches(0), // Nothing is fetched before it is polled.
		kgo.FetchMaxWait(fetchWait),
		kgo.MetadataMinAge(metadataAge / 5),
		kgo.MetadataMaxAge(metadataAge),
	}
	if m.joined.IsStrict {
		options = append(options, kgo.ShareMaxRecordsStrict())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	m.client = client
	m.say("done", nil)
	next := <-m.commands
	for next.Do != "close" {
		if next.Do == "work" {
			next = m.work()
			continue
		}
		answer, err := m.perform(next)
		if err != nil {
			m.say("refused", map[string]any{"reason": reason(err)})
		} else {
			m.say("done", answer)
		}
		next = <-m.commands
	}
	client.Close()
	m.say("closed", nil)
}

func reason(err error) string {
	var refusal *kerr.Error
	if errors.As(err, &refusal) {
		return refusal.Message
	}
	return fmt.Sprintf("%T: %v", err, err)
}

func (m *member) perform(next command) (map[string]any, error) {
	switch next.Do {
	case "poll":
		deadline := time.Now().Add(time.Duration(next.Seconds * float64(time.Second)))
		records := m.poll()
		for len(records) == 0 && time.Now().Before(deadline) {
			records = m.poll()
		}
		return map[string]any{"records": told(records)}, nil
	case "acknowledge":
		m.acknowledge(next.Places, statuses[next.How])
		return nil, nil
	case "renew":
		m.acknowledge(next.Places, kgo.AckRenew)
		outcomes, err := m.commit()
		for _, failure := range outcomes {
			if failure != nil {
				return nil, fmt.Errorf("%v", failure)
			}
		}
		return nil, err
	case "commit":
		if !m.joined.IsExplicit {
			m.client.MarkAcks(kgo.AckAccept)
		}
		outcomes, err := m.commit()
		listed := [][]any{}
		for where, failure := range outcomes {
			listed = append(listed, []any{where.Topic, where.Number, failure})
		}
		return map[string]any{"outcomes": listed}, err
	default:
		go m.client.FlushAcks(context.Background())
		return nil, nil
	}
}

func (m *member) poll() []*kgo.Record {
	ctx, cancel := context.WithTimeout(context.Background(), pollTime)
	defer cancel()
	records := m.client.PollFetches(ctx).Records()
	if len(records) > 0 {
		m.held = map[place]*kgo.Record{}
		for _, each := range records {
			m.held[place{each.Topic, each.Partition, each.Offset}] = each
		}
	}
	return records
}

func (m *member) acknowledge(places []place, status kgo.AckStatus) {
	for _, each := range places {
		m.held[each].Ack(status)
	}
}

// note is called by the client for each answer to acknowledgements.
func (m *member) note(_ *kgo.Client, results kgo.ShareAckResults) {
	m.lock.Lock()
	defer m.lock.Unlock()
	for _, each := range results {
		var failure any
		if each.Err != nil {
			failure = reason(each.Err)
		}
		m.outcomes[partition{each.Topic, each.Partition}] = failure
	}
}

// commit says what became of all that was acknowledged since the last commit. The client tells it
// on another goroutine, but before FlushAcks returns.
func (m *member) commit() (map[partition]any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), waitTime)
	defer cancel()
	err := m.client.FlushAcks(ctx)
	m.lock.Lock()
	defer m.lock.Unlock()
	outcomes := m.outcomes
	m.outcomes = map[partition]any{}
	return outcomes, err
}

func told(records []*kgo.Record) [][]any {
	listed := [][]any{}
	for _, each := range records {
		listed = append(listed, []any{
			each.Topic, each.Partition, each.Offset, string(each.Value), each.DeliveryCount(),
		})
	}
	return listed
}

func (m *member) work() command {
	for {
		select {
		case next := <-m.commands:
			return next
		default:
			if records := m.poll(); len(records) > 0 {
				m.handle(records)
			}
		}
	}
}

func (m *member) handle(records []*kgo.Record) {
	m.say("taken", map[string]any{"records": told(records)})
	m.client.MarkAcks(kgo.AckAccept, records...)
	outcomes, err := m.commit()
	if err != nil {
		m.say("failed", map[string]any{"reason": reason(err)})
		return
	}
	kept := []*kgo.Record{}
	for _, each := range records {
		failure, isTold := outcomes[partition{each.Topic, each.Partition}]
		if isTold && failure == nil {
			kept = append(kept, each)
		}
	}
	m.say("kept", map[string]any{"records": told(kept)})
}
