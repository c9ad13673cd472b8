// A member that is a client of franz-go.
package main

import (
	"context"
	"errors"
	"time"

	"pyk/members/member"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const commitTime = 10 * time.Second

type franz struct {
	client *kgo.Client
	told   *member.Told
}

func main() { member.Run(join) }

func join(asked member.Join, told *member.Told) member.Client {
	it := &franz{told: told}
	options := []kgo.Opt{
		kgo.SeedBrokers(asked.Servers),
		kgo.ConsumerGroup(asked.Group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.FetchMaxWait(member.FetchWait),
		kgo.MetadataMinAge(member.MetadataAge / 5),
		kgo.MetadataMaxAge(member.MetadataAge),
		kgo.SessionTimeout(asked.Session()),
		kgo.HeartbeatInterval(asked.Heartbeat()),
		kgo.OnPartitionsAssigned(it.assigned),
		kgo.OnPartitionsRevoked(it.revoked),
		kgo.OnPartitionsLost(it.lost),
	}
	if asked.Pattern != nil {
		options = append(options, kgo.ConsumeRegex(), kgo.ConsumeTopics("^"+*asked.Pattern+"$"))
	} else {
		options = append(options, kgo.ConsumeTopics(asked.Topics...))
	}
	if asked.Instance != nil {
		options = append(options, kgo.InstanceID(*asked.Instance))
	}
	if asked.Rack != nil {
		options = append(options, kgo.Rack(*asked.Rack))
	}
	client, err := kgo.NewClient(append(options, balancing(asked)...)...)
	if err != nil {
		panic(err)
	}
	it.client = client
	return it
}

func balancing(asked member.Join) []kgo.Opt {
	switch {
	case asked.Protocol == "consumer":
		// It asks brokers for `uniform` by the name of the balancer that is most like it.
		return []kgo.Opt{kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer())}
	case *asked.Assignor == "range":
		return []kgo.Opt{kgo.Balancers(kgo.RangeBalancer())}
	default:
		return []kgo.Opt{kgo.Balancers(kgo.CooperativeStickyBalancer())}
	}
}

func (f *franz) assigned(_ context.Context, _ *kgo.Client, claims map[string][]int32) {
	f.told.Partitions("assigned", claims)
}

func (f *franz) revoked(_ context.Context, client *kgo.Client, claims map[string][]int32) {
	f.commit(client, f.told.Uncommitted(claims))
	f.told.Partitions("revoked", claims)
}

func (f *franz) lost(_ context.Context, _ *kgo.Client, claims map[string][]int32) {
	f.told.Lost(claims)
}

func (f *franz) Poll() {
	ctx, cancel := context.WithTimeout(context.Background(), member.PollTime)
	defer cancel()
	fetches := f.client.PollFetches(ctx)
	fetches.EachError(func(_ string, _ int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) {
			f.told.Failed(err)
		}
	})
	fetches.EachRecord(func(record *kgo.Record) {
		f.told.Read(record.Topic, record.Partition, record.Offset, record.Value)
	})
	f.client.AllowRebalance()
}

func (f *franz) Commit() { f.commit(f.client, f.told.Uncommitted(nil)) }

func (f *franz) commit(client *kgo.Client, offsets map[member.Partition]int64) {
	if len(offsets) == 0 {
		return
	}
	asked := map[string]map[int32]kgo.EpochOffset{}
	for partition, offset := range offsets {
		if asked[partition.Topic] == nil {
			asked[partition.Topic] = map[int32]kgo.EpochOffset{}
		}
		asked[partition.Topic][partition.Number] = kgo.EpochOffset{Epoch: -1, Offset: offset}
	}
	ctx, cancel := context.WithTimeout(context.Background(), commitTime)
	defer cancel()
	var failed error
	client.CommitOffsetsSync(ctx, asked, func(
		_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error,
	) {
		failed = errors.Join(err, refusal(answer))
	})
	if failed != nil {
		f.told.Failed(failed)
		return
	}
	f.told.Committed(offsets)
}

func refusal(answer *kmsg.OffsetCommitResponse) error {
	if answer == nil {
		return nil
	}
	for _, topic := range answer.Topics {
		for _, partition := range topic.Partitions {
			if partition.ErrorCode != 0 {
				return kerr.ErrorForCode(partition.ErrorCode)
			}
		}
	}
	return nil
}

func (f *franz) Leave() {
	f.told.Leaving()
	f.client.CloseAllowingRebalance()
}
