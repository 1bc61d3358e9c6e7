// JetStream's side of peers/recordings: messages of 74 bytes into a stream in files, and out again as fast as its instant replay gives them.
//
//	jetstream URL MESSAGES ITEMS
//
// Prints one line a figure: name, messages a second.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	bytes = 74
	// Acknowledgements that are waited for at most: more is not faster.
	pending = 4000
)

func number(at int) int {
	n, err := strconv.Atoi(os.Args[at])
	if err != nil {
		log.Fatal(err)
	}
	return n
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("jetstream URL MESSAGES ITEMS")
	}
	messages, items := number(2), number(3)
	conn, err := nats.Connect(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(pending))
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	_ = js.DeleteStream(ctx, "REC")
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "REC", Subjects: []string{"REC.>"}, Storage: jetstream.FileStorage})
	if err != nil {
		log.Fatal(err)
	}
	publish(js, messages, items)
	replay(ctx, js, messages)
}

// All messages, the acknowledgement of the last one included.
func publish(js jetstream.JetStream, messages, items int) {
	subjects := make([]string, items)
	for n := range subjects {
		subjects[n] = fmt.Sprintf("REC.ITEM%d", n)
	}
	body := make([]byte, bytes)
	begin := time.Now()
	for n := 0; n < messages; n++ {
		for at := 0; at < 8; at++ {
			body[at] = byte(n >> (8 * at))
		}
		if _, err := js.PublishAsync(subjects[n%items], body); err != nil {
			log.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	fmt.Printf("written %.0f\n", float64(messages)/time.Since(begin).Seconds())
}

// An ordered consumer without acknowledgements and with the instant replay policy.
func replay(ctx context.Context, js jetstream.JetStream, messages int) {
	begin := time.Now()
	consumer, err := js.OrderedConsumer(ctx, "REC", jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverAllPolicy, ReplayPolicy: jetstream.ReplayInstantPolicy,
	})
	if err != nil {
		log.Fatal(err)
	}
	read, err := consumer.Messages(jetstream.PullMaxMessages(50000))
	if err != nil {
		log.Fatal(err)
	}
	for n := 0; n < messages; n++ {
		msg, err := read.Next()
		if err != nil {
			log.Fatal(err)
		}
		if len(msg.Data()) != bytes {
			log.Fatal("another message")
		}
	}
	read.Stop()
	fmt.Printf("replayed %.0f\n", float64(messages)/time.Since(begin).Seconds())
}
