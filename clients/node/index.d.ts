// The types of index.js, which says what each does.
export interface HoldOptions {
  /** Milliseconds, 100 to 86,400,000; 10,000 by default. */
  ttl?: number;
  /** Milliseconds while another holds it; 30,000 by default, 0: one try. */
  wait?: number;
  /** Who holds it; by default a name of its own for each handle. */
  owner?: string;
  /** Where the holder can be reached; for people and followers. */
  endpoint?: string;
  /** Ends the wait, with its reason as the error. */
  signal?: AbortSignal;
}

export interface TermgateOptions {
  database?: "postgresql" | "sqlserver" | "sqlite";
  schema?: string;
  /** Where what a lease goes on after is reported: process.emitWarning by default. */
  warn?: (message: string) => void;
}

export class Termgate {
  /** connect: opens a connection, a Client or a pool's client of pg, or a ConnectionPool of mssql. Each held lease has one. */
  constructor(connect: () => Promise<unknown>, options?: TermgateOptions);
  /** Rejects with a TimeoutError where another has held it for all of `wait`, and with what the driver throws. */
  hold(scope: string, options?: HoldOptions): Promise<Lease>;
  /** Calls work each time this process has become the leader, until it returns while the lease is held and nobody asks for it, or the
   * signal is aborted. `stop` is aborted when work has to return. */
  lead<Result>(
    scope: string,
    work: (lease: Lease, stop: AbortSignal) => Promise<Result>,
    options?: Omit<HoldOptions, "wait">,
  ): Promise<Result | undefined>;
  /** Yields who leads, null for nobody, and then each change of owner or term. It looks every `interval`, when the lease can end, and ten
   * times a second while nobody leads. An error ends it: what the driver throws, or a TimeoutError where no answer comes for 10 s. That is
   * no change, so watch again. Never write because of a watch. */
  watch(scope: string, options?: WatchOptions): AsyncGenerator<Leader | null, void, void>;
}

export interface WatchOptions {
  /** Milliseconds between two looks, 10 to 86,400,000; 1,000 by default. */
  interval?: number;
  /** Ends the watch, with its reason as the error. Leaving the loop ends it too. */
  signal?: AbortSignal;
}

/** Who leads a scope. */
export interface Leader {
  owner: string;
  term: bigint;
  /** null where the holder gave none. */
  endpoint: string | null;
}

export class Lease {
  readonly scope: string;
  readonly owner: string;
  readonly term: bigint;
  /** Aborted when the lease can no longer be trusted, or was given back. */
  readonly lost: AbortSignal;
  /** Aborted when somebody asks for the lease; it is held as before for a while. */
  readonly askedToLeave: AbortSignal;
  /** Whether the lease may be trusted at this moment, by the clock. */
  held(): boolean;
  /** First in a transaction that writes: a client of pg, or a Transaction of mssql. */
  declare(transaction: unknown): Promise<void>;
  /** Gives the lease back. False: it was no longer held. */
  release(): Promise<boolean>;
  [Symbol.asyncDispose](): Promise<void>;
}
