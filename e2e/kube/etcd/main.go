// etcd as its own repository builds it: the module with its `main` has the client and all tools as well.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
