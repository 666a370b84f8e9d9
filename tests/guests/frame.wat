;; The frame the small guests of the tests are put into: an agent whose `run` is the core function `$body`.
;; Its own lines stand where BODY is. Memory and realloc are a module of their own, so that host calls can use them.
(component
  (import "treeward:agent/types@0.1.0" (instance $types
    (type $t (record (field "text" string)))
    (export "task" (type (eq $t)))))
  (alias export $types "task" (type $task))
  (import "treeward:agent/session@0.1.0" (instance $session
    (export "emit" (func (param "text" string)))))
  (import "wasi:random/random@0.2.3" (instance $random
    (export "get-random-u64" (func (result u64)))))
  (import "wasi:random/insecure@0.2.3" (instance $insecure
    (export "get-insecure-random-u64" (func (result u64)))))
  (import "wasi:clocks/monotonic-clock@0.2.3" (instance $clock
    (export "now" (func (result u64)))))
  (import "wasi:clocks/wall-clock@0.2.3" (instance $wall
    (type $d (record (field "seconds" u64) (field "nanoseconds" u32)))
    (export "datetime" (type $datetime (eq $d)))
    (export "now" (func (result $datetime)))))
  (import "wasi:cli/environment@0.2.3" (instance $environment
    (export "get-environment" (func (result (list (tuple string string)))))))

  (core module $libc
    (memory (export "memory") 1)
    (global $next (mut i32) (i32.const 4096))
    (func (export "realloc") (param $old i32) (param $old_len i32) (param $align i32) (param $len i32) (result i32)
      (local $at i32)
      (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
      (global.set $next (i32.add (local.get $at) (local.get $len)))
      (block $fits
        (br_if $fits (i32.le_u (global.get $next) (i32.mul (memory.size) (i32.const 65536))))
        (drop (memory.grow (i32.add (i32.shr_u (local.get $len) (i32.const 16)) (i32.const 1)))))
      (local.get $at)))
  (core instance $libc (instantiate $libc))
  (alias core export $libc "memory" (core memory $memory))
  (alias core export $libc "realloc" (core func $realloc))
  (core func $emit (canon lower (func $session "emit") (memory $memory) (realloc $realloc)))
  (core func $random_u64 (canon lower (func $random "get-random-u64")))
  (core func $insecure_u64 (canon lower (func $insecure "get-insecure-random-u64")))
  (core func $clock_now (canon lower (func $clock "now")))
  (core func $wall_now (canon lower (func $wall "now") (memory $memory)))
  (core func $get_environment
    (canon lower (func $environment "get-environment") (memory $memory) (realloc $realloc)))

  (core module $main
    (import "host" "memory" (memory 1))
    (import "host" "emit" (func $emit (param i32 i32)))
    (import "host" "random" (func $random (result i64)))
    (import "host" "insecure" (func $insecure (result i64)))
    (import "host" "clock" (func $clock (result i64)))
    (import "host" "wall" (func $wall (param i32)))
    (import "host" "environment" (func $environment (param i32)))
    ;; Answers with the bytes at $at: tag 0 is an answer, 1 an error.
    (func $reply (param $tag i32) (param $at i32) (param $len i32) (result i32)
      (i32.store (i32.const 16) (local.get $tag))
      (i32.store (i32.const 20) (local.get $at))
      (i32.store (i32.const 24) (local.get $len))
      (i32.const 16))
    ;; Writes a number as sixteen letters at $at.
    (func $letters (param $at i32) (param $number i64)
      (local $end i32)
      (local.set $end (i32.add (local.get $at) (i32.const 16)))
      (loop $next
        (i32.store8 (local.get $at)
          (i32.add (i32.const 97) (i32.wrap_i64 (i64.and (local.get $number) (i64.const 15)))))
        (local.set $number (i64.shr_u (local.get $number) (i64.const 4)))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br_if $next (i32.lt_u (local.get $at) (local.get $end)))))
    ;;BODY
    (export "run" (func $body)))
  (core instance $main (instantiate $main (with "host" (instance
    (export "memory" (memory $memory))
    (export "emit" (func $emit))
    (export "random" (func $random_u64))
    (export "insecure" (func $insecure_u64))
    (export "clock" (func $clock_now))
    (export "wall" (func $wall_now))
    (export "environment" (func $get_environment))))))
  (func (export "run") (param "task" $task) (result (result string (error string)))
    (canon lift (core func $main "run") (memory $memory) (realloc $realloc))))
