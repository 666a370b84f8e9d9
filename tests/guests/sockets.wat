;; Asks for a TCP socket and a UDP socket: answers with their error codes as two letters, or `!` where it got one.
(component
  (import "treeward:agent/types@0.1.0" (instance $types
    (type $t (record (field "text" string)))
    (export "task" (type (eq $t)))))
  (alias export $types "task" (type $task))
  (import "wasi:sockets/network@0.2.3" (instance $network
    (type $e (enum "unknown" "access-denied" "not-supported" "invalid-argument" "out-of-memory" "timeout"
      "concurrency-conflict" "not-in-progress" "would-block" "invalid-state" "new-socket-limit"
      "address-not-bindable" "address-in-use" "remote-unreachable" "connection-refused" "connection-reset"
      "connection-aborted" "datagram-too-large" "name-unresolvable" "temporary-resolver-failure"
      "permanent-resolver-failure"))
    (export "error-code" (type (eq $e)))
    (type $f (enum "ipv4" "ipv6"))
    (export "ip-address-family" (type (eq $f)))))
  (alias export $network "error-code" (type $error))
  (alias export $network "ip-address-family" (type $family))
  (import "wasi:sockets/tcp@0.2.3" (instance $tcp (export "tcp-socket" (type (sub resource)))))
  (alias export $tcp "tcp-socket" (type $tcp-socket))
  (import "wasi:sockets/udp@0.2.3" (instance $udp (export "udp-socket" (type (sub resource)))))
  (alias export $udp "udp-socket" (type $udp-socket))
  (import "wasi:sockets/tcp-create-socket@0.2.3" (instance $create-tcp
    (alias outer 1 $error (type $e)) (alias outer 1 $family (type $f)) (alias outer 1 $tcp-socket (type $s))
    (export "error-code" (type $code (eq $e)))
    (export "ip-address-family" (type $ip (eq $f)))
    (export "tcp-socket" (type $socket (eq $s)))
    (export "create-tcp-socket" (func (param "address-family" $ip) (result (result (own $socket) (error $code)))))))
  (import "wasi:sockets/udp-create-socket@0.2.3" (instance $create-udp
    (alias outer 1 $error (type $e)) (alias outer 1 $family (type $f)) (alias outer 1 $udp-socket (type $s))
    (export "error-code" (type $code (eq $e)))
    (export "ip-address-family" (type $ip (eq $f)))
    (export "udp-socket" (type $socket (eq $s)))
    (export "create-udp-socket" (func (param "address-family" $ip) (result (result (own $socket) (error $code)))))))
  (core module $libc
    (memory (export "memory") 1)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096)))
  (core instance $libc (instantiate $libc))
  (alias core export $libc "memory" (core memory $memory))
  (alias core export $libc "realloc" (core func $realloc))
  (core func $tcp (canon lower (func $create-tcp "create-tcp-socket") (memory $memory)))
  (core func $udp (canon lower (func $create-udp "create-udp-socket") (memory $memory)))
  (core module $main
    (import "host" "memory" (memory 1))
    (import "host" "tcp" (func $tcp (param i32 i32)))
    (import "host" "udp" (func $udp (param i32 i32)))
    (func $letter (param $result i32) (result i32)
      (select (i32.add (i32.const 97) (i32.load8_u offset=4 (local.get $result))) (i32.const 33)
        (i32.load8_u (local.get $result))))
    (func (export "run") (param i32 i32) (result i32)
      (call $tcp (i32.const 0) (i32.const 32))
      (call $udp (i32.const 0) (i32.const 40))
      (i32.store8 (i32.const 64) (call $letter (i32.const 32)))
      (i32.store8 (i32.const 65) (call $letter (i32.const 40)))
      (i32.store (i32.const 16) (i32.const 0))
      (i32.store (i32.const 20) (i32.const 64))
      (i32.store (i32.const 24) (i32.const 2))
      (i32.const 16)))
  (core instance $main (instantiate $main (with "host" (instance
    (export "memory" (memory $memory)) (export "tcp" (func $tcp)) (export "udp" (func $udp))))))
  (func (export "run") (param "task" $task) (result (result string (error string)))
    (canon lift (core func $main "run") (memory $memory) (realloc $realloc))))
