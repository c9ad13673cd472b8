// A member that is a consumer group of sarama.
package main

import (
	"context"
	"sync"
	"time"

	"pyk/members/member"

	"github.com/IBM/sarama"
)

type reader struct {
	group  sarama.ConsumerGroup
	told   *member.Told
	cancel context.CancelFunc
	ended  sync.WaitGroup

	lock    sync.Mutex
	session sarama.ConsumerGroupSession
}

func main() { member.Run(join) }

func join(asked member.Join, told *member.Told) member.Client {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Metadata.RefreshFrequency = member.MetadataAge
	config.Consumer.MaxWaitTime = member.FetchWait
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Session.Timeout = asked.Session()
	config.Consumer.Group.Heartbeat.Interval = asked.Heartbeat()
	config.Consumer.Group.Rebalance.GroupStrategies =
		[]sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	if asked.Instance != nil {
		config.Consumer.Group.InstanceId = *asked.Instance
	}
	if asked.Rack != nil {
		config.RackID = *asked.Rack
	}
	group, err := sarama.NewConsumerGroup([]string{asked.Servers}, asked.Group, config)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	it := &reader{group: group, told: told, cancel: cancel}
	go func() {
		for err := range group.Errors() {
			told.Failed(err)
		}
	}()
	it.ended.Add(1)
	go func() {
		defer it.ended.Done()
		for ctx.Err() == nil {
			told.Failed(group.Consume(ctx, asked.Topics, it))
		}
	}()
	return it
}

func (r *reader) Setup(session sarama.ConsumerGroupSession) error {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.session = session
	r.told.Partitions("assigned", session.Claims())
	return nil
}

func (r *reader) Cleanup(session sarama.ConsumerGroupSession) error {
	r.Commit()
	r.lock.Lock()
	defer r.lock.Unlock()
	r.session = nil
	r.told.Partitions("revoked", session.Claims())
	return nil
}

func (r *reader) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		r.told.Read(message.Topic, message.Partition, message.Offset, message.Value)
	}
	return nil
}

func (r *reader) Poll() { time.Sleep(member.PollTime / 5) }

func (r *reader) Commit() {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.session == nil {
		return
	}
	if offsets := r.told.Uncommitted(nil); len(offsets) > 0 {
		r.session.Commit()
		r.told.Committed(offsets)
	}
}

func (r *reader) Leave() {
	r.cancel()
	r.ended.Wait()
	r.told.Leaving()
	r.told.Failed(r.group.Close())
}
