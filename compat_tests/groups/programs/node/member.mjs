// A member that is a consumer of kafkajs. See tests/clients/groups/programs/member.py.
//
// kafkajs lets nobody commit before a rebalance, so this one commits after every batch.

import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import kafkajs from "kafkajs";

const METADATA_AGE_MS = 500;
const FETCH_WAIT_MS = 50;

class Member {
  constructor(join) {
    this.name = join.name;
    this.owned = [];
    this.isLeaving = false;
    const kafka = new kafkajs.Kafka({
      brokers: [join.servers],
      logLevel: kafkajs.logLevel.NOTHING,
      retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 100 },
    });
    this.consumer = kafka.consumer({
      groupId: join.group,
      sessionTimeout: join.session_ms,
      heartbeatInterval: join.heartbeat_ms,
      maxWaitTimeInMs: FETCH_WAIT_MS,
      metadataMaxAge: METADATA_AGE_MS,
    });
    const { GROUP_JOIN, REBALANCING, CRASH } = this.consumer.events;
    this.consumer.on(GROUP_JOIN, ({ payload }) => this.own(payload.memberAssignment));
    this.consumer.on(REBALANCING, () => this.letGo("revoked"));
    this.consumer.on(CRASH, ({ payload }) => this.fail(payload.error));
    this.joined = this.start(join.topics);
  }

  async start(topics) {
    await this.consumer.connect();
    await this.consumer.subscribe({ topics, fromBeginning: true });
    await this.consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: true,
      eachBatch: ({ batch }) => this.read(batch),
    });
  }

  own(assignment) {
    this.letGo("lost");
    this.owned = Object.entries(assignment).flatMap(([topic, numbers]) =>
      numbers.map((number) => [topic, number]),
    );
    this.say("assigned", { partitions: this.owned });
  }

  letGo(event) {
    if (this.owned.length > 0 && !this.isLeaving) {
      this.say(event, { partitions: this.owned });
    }
    this.owned = [];
  }

  async read({ topic, partition, messages }) {
    if (this.isLeaving) return;
    for (const { offset, value } of messages) {
      const where = { partition: [topic, partition], offset: Number(offset) };
      this.say("read", { ...where, value: value.toString() });
    }
    const next = Number(messages.at(-1).offset) + 1;
    try {
      await this.consumer.commitOffsets([{ topic, partition, offset: String(next) }]);
      this.say("committed", { offsets: [[topic, partition, next]] });
    } catch (error) {
      this.fail(error);
      throw error;
    }
  }

  async leave() {
    await this.joined;
    this.isLeaving = true;
    this.say("leaving", {});
    await this.consumer.disconnect();
    this.say("left", {});
  }

  fail(error) {
    this.say("failed", { reason: String(error) });
  }

  say(event, details) {
    // In one piece, and at once.
    writeSync(1, `${JSON.stringify({ event, by: this.name, ...details })}\n`);
  }
}

let member;
const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const command = JSON.parse(line);
  if (command.do === "join") member = new Member(command);
  else if (command.do === "commit") member.say("done", {});
  else member.leave();
});
lines.on("close", () => process.exit(0));
