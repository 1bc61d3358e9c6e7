module quoteway/peers/stores/jetstream

go 1.23

require github.com/nats-io/nats.go v1.47.0
