// Package member is a member of a group as a program: told what to do by lines of JSON on stdin,
// telling what happens to it on stdout. See tests/clients/groups/programs/member.py.
package member

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

const (
	PollTime    = 50 * time.Millisecond
	MetadataAge = 500 * time.Millisecond
	FetchWait   = 50 * time.Millisecond
)

type Join struct {
	Do            string   `json:"do"`
	Name          string   `json:"name"`
	Servers       string   `json:"servers"`
	Group         string   `json:"group"`
	Topics        []string `json:"topics"`
	Pattern       *string  `json:"pattern"`
	Protocol      string   `json:"protocol"`
	Assignor      *string  `json:"assignor"`
	Instance      *string  `json:"instance"`
	Rack          *string  `json:"rack"`
	SessionMs     int      `json:"session_ms"`
	HeartbeatMs   int      `json:"heartbeat_ms"`
	CommitsAlways bool     `json:"commits_always"`
}

func (j Join) Session() time.Duration   { return time.Duration(j.SessionMs) * time.Millisecond }
func (j Join) Heartbeat() time.Duration { return time.Duration(j.HeartbeatMs) * time.Millisecond }

type Partition struct {
	Topic  string
	Number int32
}

// Told is what a member says of itself, and what it has read and not committed yet.
type Told struct {
	name        string
	lock        sync.Mutex
	uncommitted map[Partition]int64
}

func (t *Told) say(event string, key string, details any) {
	line, err := json.Marshal(map[string]any{"event": event, "by": t.name, key: details})
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(append(line, '\n')) // In one piece.
}

func (t *Told) Partitions(event string, claims map[string][]int32) {
	partitions := [][]any{}
	for topic, numbers := range claims {
		for _, number := range numbers {
			partitions = append(partitions, []any{topic, number})
		}
	}
	t.say(event, "partitions", partitions)
}

func (t *Told) Lost(claims map[string][]int32) {
	t.Uncommitted(claims)
	t.Partitions("lost", claims)
}

func (t *Told) Read(topic string, number int32, offset int64, value []byte) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.uncommitted[Partition{topic, number}] = offset + 1
	line, _ := json.Marshal(map[string]any{
		"event": "read", "by": t.name, "partition": []any{topic, number},
		"offset": offset, "value": string(value),
	})
	os.Stdout.Write(append(line, '\n'))
}

// Uncommitted is what is to be committed now, of all partitions if the claims are nil.
func (t *Told) Uncommitted(claims map[string][]int32) map[Partition]int64 {
	t.lock.Lock()
	defer t.lock.Unlock()
	found := map[Partition]int64{}
	for partition, offset := range t.uncommitted {
		if claims == nil || contains(claims[partition.Topic], partition.Number) {
			found[partition] = offset
			delete(t.uncommitted, partition)
		}
	}
	return found
}

func contains(numbers []int32, wanted int32) bool {
	for _, number := range numbers {
		if number == wanted {
			return true
		}
	}
	return false
}

func (t *Told) Committed(offsets map[Partition]int64) {
	told := [][]any{}
	for partition, offset := range offsets {
		told = append(told, []any{partition.Topic, partition.Number, offset})
	}
	t.say("committed", "offsets", told)
}

func (t *Told) Failed(err error) {
	if err != nil {
		t.say("failed", "reason", fmt.Sprintf("%T: %v", err, err))
	}
}

// Client is a consumer in a group.
type Client interface {
	Poll()
	Commit() // All that was read, and tells of it.
	Leave()  // Stops reading, calls `leaving`, closes.
}

// Run does as stdin says until it ends.
func Run(join func(Join, *Told) Client) {
	commands := make(chan Join)
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			var command Join
			if err := json.Unmarshal(lines.Bytes(), &command); err != nil {
				panic(err)
			}
			commands <- command
		}
		os.Exit(0)
	}()
	for joined := range commands {
		told := &Told{name: joined.Name, uncommitted: map[Partition]int64{}}
		live(join(joined, told), told, joined.CommitsAlways, commands)
	}
}

func live(client Client, told *Told, commitsAlways bool, commands chan Join) {
	for {
		select {
		case command := <-commands:
			client.Commit()
			if command.Do == "leave" {
				client.Leave()
				told.say("left", "at", time.Now().String())
				return
			}
			told.say("done", "at", time.Now().String())
		default:
			client.Poll()
			if commitsAlways {
				client.Commit()
			}
		}
	}
}

// Leaving is said before the client closes: others may have its partitions before it is done.
func (t *Told) Leaving() { t.say("leaving", "at", time.Now().String()) }
