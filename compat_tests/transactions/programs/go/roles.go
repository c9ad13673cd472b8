package main

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kgo"
)

func within(act func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), waitTime)
	defer cancel()
	return act(ctx)
}

func produce(asked command, tell told, commands chan command) {
	client := must(kgo.NewClient(transactional(asked)...))
	defer client.Close()
	tell.outcome(within(func(ctx context.Context) error {
		_, _, err := client.ProducerID(ctx)
		return err
	}))
	for next := range commands {
		if next.Do == "close" {
			return
		}
		tell.outcome(within(func(ctx context.Context) error { return perform(ctx, client, next) }))
	}
}

func perform(ctx context.Context, client *kgo.Client, next command) error {
	switch next.Do {
	case "begin":
		return client.BeginTransaction()
	case "send":
		record := &kgo.Record{
			Topic: next.Partition.Topic, Partition: next.Partition.Number, Value: []byte(next.Value),
		}
		return client.ProduceSync(ctx, record).FirstErr()
	case "commit":
		return client.EndTransaction(ctx, kgo.TryCommit)
	case "abort":
		return client.EndTransaction(ctx, kgo.TryAbort)
	default:
		return errors.New("unknown: " + next.Do)
	}
}

func read(asked command, tell told, commands chan command) {
	isolation := kgo.ReadUncommitted()
	if asked.Isolation == "read_committed" {
		isolation = kgo.ReadCommitted()
	}
	from := map[string]map[int32]kgo.Offset{}
	for _, each := range asked.Partitions {
		if from[each.Topic] == nil {
			from[each.Topic] = map[int32]kgo.Offset{}
		}
		from[each.Topic][each.Number] = kgo.NewOffset().AtStart()
	}
	client := must(kgo.NewClient(
		kgo.SeedBrokers(asked.Servers),
		kgo.ConsumePartitions(from),
		kgo.FetchIsolationLevel(isolation),
		kgo.FetchMaxWait(fetchWait),
		kgo.MetadataMinAge(metadataAge/5),
		kgo.MetadataMaxAge(metadataAge),
	))
	defer client.Close()
	tell.say("done", nil)
	for {
		select {
		case <-commands:
			return
		default:
			ctx, cancel := context.WithTimeout(context.Background(), pollTime)
			client.PollFetches(ctx).EachRecord(func(record *kgo.Record) {
				tell.say("read", map[string]any{
					"partition": []any{record.Topic, record.Partition},
					"offset":    record.Offset,
					"value":     string(record.Value),
				})
			})
			cancel()
		}
	}
}

// A copier is a session of franz-go, which commits what was polled since it began.
type copier struct {
	asked    command
	told     told
	commands chan command
	session  *kgo.GroupTransactSession
	isToHang bool
}

func (c *copier) live() {
	c.session = c.newSession()
	c.told.say("done", nil)
	for {
		select {
		case next := <-c.commands:
			if next.Do == "close" {
				c.session.Close()
				return
			}
			c.isToHang = true
		default:
			c.poll()
		}
	}
}

func (c *copier) newSession() *kgo.GroupTransactSession {
	return must(kgo.NewGroupTransactSession(append(transactional(c.asked),
		kgo.ConsumerGroup(c.asked.Group),
		kgo.ConsumeTopics(c.asked.Source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(fetchWait),
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.SessionTimeout(milliseconds(c.asked.SessionMs)),
		kgo.HeartbeatInterval(milliseconds(c.asked.HeartbeatMs)),
		kgo.OnPartitionsAssigned(c.assigned),
	)...))
}

func (c *copier) assigned(_ context.Context, _ *kgo.Client, claims map[string][]int32) {
	partitions := [][]any{}
	for topic, numbers := range claims {
		for _, number := range numbers {
			partitions = append(partitions, []any{topic, number})
		}
	}
	c.told.say("assigned", map[string]any{"partitions": partitions})
}

func (c *copier) poll() {
	ctx, cancel := context.WithTimeout(context.Background(), pollTime)
	records := c.session.PollRecords(ctx, recordsMax).Records()
	cancel()
	if len(records) == 0 {
		return
	}
	isCommitted, err := c.copy(records)
	if isCommitted && err == nil {
		c.told.say("copied", map[string]any{"count": len(records)})
		return
	}
	c.told.say("aborted", map[string]any{"reason": reason(errors.Join(err, errors.New("aborted")))})
	if err != nil {
		c.session.Close()
		c.session = c.newSession()
	}
}

func (c *copier) copy(records []*kgo.Record) (bool, error) {
	if err := c.session.Begin(); err != nil {
		return false, err
	}
	copies := []*kgo.Record{}
	for _, each := range records {
		copies = append(copies, &kgo.Record{
			Topic: c.asked.Target, Partition: each.Partition, Value: each.Value,
		})
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitTime)
	defer cancel()
	attempt := kgo.TryCommit
	if c.session.ProduceSync(ctx, copies...).FirstErr() != nil {
		attempt = kgo.TryAbort
	}
	if c.isToHang {
		c.isToHang = false
		c.told.say("hanging", nil)
		<-c.commands
	}
	return c.session.End(context.Background(), attempt)
}
