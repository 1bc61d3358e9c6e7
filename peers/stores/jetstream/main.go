// JetStream's side of peers/stores: messages into a stream that servers of this host keep, as fast as their acknowledgements come.
//
//	jetstream NATS-SERVER FOLDER SECONDS BYTES memory|file REPLICAS
//
// Prints messages that are acknowledged a second.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Acknowledgements that are waited for at most, as in peers/recordings.
const pending = 4000

func main() {
	if len(os.Args) != 7 {
		log.Fatal("jetstream NATS-SERVER FOLDER SECONDS BYTES memory|file REPLICAS")
	}
	seconds, err := strconv.ParseFloat(os.Args[3], 64)
	if err != nil {
		log.Fatal(err)
	}
	bytes, err := strconv.Atoi(os.Args[4])
	if err != nil {
		log.Fatal(err)
	}
	replicas, err := strconv.Atoi(os.Args[6])
	if err != nil || replicas < 1 {
		log.Fatal("replicas: ", os.Args[6])
	}
	storage := jetstream.FileStorage
	if os.Args[5] == "memory" {
		storage = jetstream.MemoryStorage
	}
	urls, stop := servers(os.Args[1], os.Args[2], replicas)
	rate, err := publish(urls, time.Duration(seconds*float64(time.Second)), bytes, storage, replicas)
	stop()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%-6s, %d replica(s) %10.0f a second\n", os.Args[5], replicas, rate)
}

// Ports that are free now, of which each server needs one to clients and one to the others.
func ports(count int) []string {
	var listeners []net.Listener
	var found []string
	for n := 0; n < count; n++ {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			log.Fatal(err)
		}
		listeners = append(listeners, listener)
		found = append(found, strconv.Itoa(listener.Addr().(*net.TCPAddr).Port))
	}
	for _, listener := range listeners {
		listener.Close()
	}
	return found
}

func servers(program, folder string, count int) (string, func()) {
	clients, others := ports(count), ports(count)
	var urls, routes []string
	for n := range clients {
		urls = append(urls, "nats://127.0.0.1:"+clients[n])
		routes = append(routes, "nats://127.0.0.1:"+others[n])
	}
	var running []*exec.Cmd
	for n := range clients {
		words := []string{"-a", "127.0.0.1", "-p", clients[n], "-js", "-sd", filepath.Join(folder, "server"+strconv.Itoa(n))}
		if count > 1 {
			words = append(words, "-server_name", "server"+strconv.Itoa(n), "-cluster_name", "stores", "-cluster", routes[n], "-routes", strings.Join(routes, ","))
		}
		server := exec.Command(program, words...)
		if err := server.Start(); err != nil {
			log.Fatal(err)
		}
		running = append(running, server)
	}
	return strings.Join(urls, ","), func() {
		for _, server := range running {
			_ = server.Process.Kill()
			_ = server.Wait()
		}
	}
}

func publish(urls string, duration time.Duration, bytes int, storage jetstream.StorageType, replicas int) (float64, error) {
	conn, err := nats.Connect(urls, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	refused := func(_ jetstream.JetStream, _ *nats.Msg, err error) { log.Fatal(err) }
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(pending), jetstream.WithPublishAsyncErrHandler(refused))
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	config := jetstream.StreamConfig{Name: "STORE", Subjects: []string{"STORE"}, Storage: storage, Replicas: replicas}
	// Until the servers have found each other there is nobody to make it.
	for {
		once, end := context.WithTimeout(ctx, 2*time.Second)
		_, err = js.CreateStream(once, config)
		end()
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return 0, err
		}
	}
	body := make([]byte, bytes)
	for at := range body {
		// As bytes that do not pack.
		body[at] = byte(uint32(at+1) * 2654435761 >> 24)
	}
	begin, sent := time.Now(), 0
	for time.Since(begin) < duration {
		for n := 0; n < 64; n++ {
			if _, err := js.PublishAsync("STORE", body); err != nil {
				return 0, err
			}
		}
		sent += 64
	}
	<-js.PublishAsyncComplete()
	return float64(sent) / time.Since(begin).Seconds(), nil
}
