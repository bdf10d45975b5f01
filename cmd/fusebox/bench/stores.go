package bench

import (
	"context"

	"fusebox/store/localpg"
)

// openStores makes sure of a PostgreSQL and a Redis. Where an address is empty it starts a
// private server, durable as by default, and writes its address there. stop ends what was
// started.
func openStores(ctx context.Context, databaseURL, redisURL *string) (stop func(), err error) {
	stopPostgres := func() {}
	if *databaseURL == "" {
		pg, err := localpg.Start(ctx, localpg.Options{})
		if err != nil {
			return nil, err
		}
		stopPostgres = func() { _ = pg.Stop() } // it ends with this process in any case
		*databaseURL = pg.DSN("postgres")
	}
	redis, err := openRedis(ctx, *redisURL)
	if err != nil {
		stopPostgres()
		return nil, err
	}
	*redisURL = redis.url
	return func() { redis.stop(); stopPostgres() }, nil
}
