(* Page 8: What attention costs (Propositions 8.2, 8.4, 8.6, 8.8, 8.9) *)
From Coq Require Import Lia.
From mathcomp Require Import all_ssreflect all_algebra.
Require Import definitions.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Proposition 8.2 *)
Module Counts.
Local Open Scope nat_scope.
(* the counts of Proposition 8.2: a procedure is the list of its products *)
Section Counts.
Definition shape := (nat * nat * nat)%type.
Definition flops1 (s : shape) := 2 * s.1.1 * s.1.2 * s.2.
Definition flops (p : seq shape) := \sum_(s <- p) flops1 s.
Definition times r (p : seq shape) := flatten (nseq r p).
Lemma flops_cat p q : flops (p ++ q) = flops p + flops q. Proof. exact: big_cat. Qed.
Lemma flops_times r p : flops (times r p) = r * flops p.
Proof. by elim: r => [|r IH]; rewrite /times /= ?flops_cat ?[flops (flatten _)]IH ?mulSn //
  /flops big_nil. Qed.
Lemma flops_cons s p : flops (s :: p) = flops1 s + flops p. Proof. exact: big_cons. Qed.
Lemma flops_nil : flops [::] = 0. Proof. exact: big_nil. Qed.
(* q queries of width d against s keys: logits, then values *)
Definition attend (q s d : nat) : seq shape := [:: (q, d, s); (q, s, d)].
Lemma flops_attend q s d : flops (attend q s d) = 4 * q * s * d.
Proof. by rewrite !flops_cons flops_nil /flops1 /= addn0 mulnAC addnn -mul2n !mulnA. Qed.
Definition dense (n d : nat) : seq shape := attend n n d.
Definition linformer (n k d : nat) : seq shape := [:: (k, n, d); (k, n, d)] ++ attend n k d.
(* b tiles of t queries, each with t + l keys; l columns of a queries *)
Definition strided (b t a l d : nat) : seq shape := times b (attend t (t + l) d) ++
  times l (attend a a d).
Definition fixed (a l c d : nat) : seq shape := times a (attend l l d) ++ attend (a * l) (c * a)
  d.
Definition window (a t w d : nat) : seq shape := times a (attend t (t + w - 1) d).
Definition lsh (r n a m : nat) (bs : seq nat) (d : nat) : seq shape := times r ([seq (n, d, b) |
  b <- bs] ++ times a (attend m (2 * m) d)).
Definition linear (n d : nat) : seq shape := [:: (d, n, d.+1); (n, d, d.+1)].
Definition performer (n f d : nat) : seq shape := [:: (n, d, f); (n, d, f); (f, n, d.+1); (n, f,
  d.+1)].
Definition nystrom (n k d : nat) : seq shape := [:: (n, d, k); (k, d, n); (k, n, d); (n, k, d);
  (k, d, k); (k, k, d)].
Definition gru (n d : nat) : seq shape := times n (times 3 [:: (1, d, d); (1, d, d)]).
(* Proposition 8.2 (Counts): dense. *)
Theorem dense_flops n d : flops (dense n d) = 4 * n ^ 2 * d.
Proof. by rewrite flops_attend -mulnn !mulnA. Qed.
(* Linformer. *)
Theorem linformer_flops n k d : flops (linformer n k d) = 8 * n * k * d.
Proof.
rewrite flops_cat flops_attend !flops_cons flops_nil /flops1 /= addn0 addnn -mul2n !mulnA.
by rewrite [2 * 2 * k * n](mulnAC) -!mulnDl.
Qed.
(* Strided, n = b t = a l. *)
Theorem strided_flops b t a l d n : n = b * t -> n = a * l ->
  flops (strided b t a l d) = 4 * n * (t + l + a) * d.
Proof.
move=> nb na; rewrite flops_cat !flops_times !flops_attend [in RHS]mulnDr mulnDl; congr (_ + _).
  by rewrite nb !mulnA [b * 4]mulnC.
by rewrite na !mulnA; congr (_ * _); rewrite [l * 4]mulnC [4 * a * l]mulnAC.
Qed.
(* Fixed, n = a l. *)
Theorem fixed_flops a l c d n : n = a * l -> flops (fixed a l c d) = 4 * n * (l + c * a) * d.
Proof.
move=> ->; rewrite flops_cat !flops_times !flops_attend mulnDr mulnDl; congr (_ + _).
by rewrite !mulnA [a * 4]mulnC.
Qed.
(* Window, n = a t. *)
Theorem window_flops a t w d n : n = a * t -> flops (window a t w d) = 4 * n * (t + w - 1) * d.
Proof. by move=> ->; rewrite flops_times flops_attend !mulnA [a * 4]mulnC. Qed.
(* b_u directions are b_u / 2 columns; bs are the halves *)
(* LSH, n = a m chunks of m; a rotation with b columns has 2 b buckets. *)
Theorem lsh_flops r n a m bs d : n = a * m ->
  flops (lsh r n a m bs d) = r * (n * d * (\sum_(b <- bs) 2 * b) + 8 * n * m * d).
Proof.
move=> e; rewrite flops_times flops_cat flops_times flops_attend; congr (_ * (_ + _)).
  rewrite /flops big_map big_distrr; apply: eq_bigr => b _ /=; rewrite /flops1 /=.
  by rewrite mulnCA !mulnA.
by rewrite e -[8]/(4 * 2) !mulnA [LHS](ACl (2*4*1*3*5*6)).
Qed.
(* Linear. *)
Theorem linear_flops n d : flops (linear n d) = 4 * n * d * d.+1.
Proof. by rewrite !flops_cons flops_nil /flops1 /= addn0 [2 * d * n]mulnAC addnn -mul2n !mulnA.
  Qed.
(* Performer. *)
Theorem performer_flops n f d : flops (performer n f d) = 4 * n * f * (2 * d + 1).
Proof.
rewrite !flops_cons flops_nil /flops1 /= addn0.
have -> : 2 * n * d * f = 2 * n * f * d by rewrite mulnAC.
have -> : 2 * f * n * d.+1 = 2 * n * f * d.+1 by rewrite [2 * f * n]mulnAC.
by rewrite addnA !addnn -!mul2n !mulnA -mulnDr addnS addnn -mul2n addn1.
Qed.
(* Nystrom, the pseudo-inverse aside. *)
Theorem nystrom_flops n k d : flops (nystrom n k d) = 8 * n * k * d + 4 * k ^ 2 * d.
Proof.
rewrite !flops_cons flops_nil /flops1 /= addn0.
have -> : 2 * n * d * k = 2 * n * k * d by rewrite mulnAC.
have -> : 2 * k * d * n = 2 * n * k * d by rewrite [RHS]mulnAC [2 * n * d]mulnAC [RHS]mulnAC [2 *
  d * k]mulnAC.
have -> : 2 * k * n * d = 2 * n * k * d by rewrite [2 * k * n]mulnAC.
have -> : 2 * k * d * k = 2 * k * k * d by rewrite mulnAC.
have -> : 8 * n * k * d = 2 * n * k * d + 2 * n * k * d + 2 * n * k * d + 2 * n * k * d.
  by rewrite -!mulnDl.
have -> : 4 * k ^ 2 * d = 2 * k * k * d + 2 * k * k * d by rewrite -!mulnDl -mulnn !mulnA.
by rewrite !addnA.
Qed.
(* GRU: three gates of two products, for each token. *)
Theorem gru_flops n d : flops (gru n d) = 12 * n * d ^ 2.
Proof.
rewrite !flops_times !flops_cons flops_nil /flops1 /= addn0 muln1 addnn -mul2n -mulnn !mulnA.
by rewrite [LHS](ACl (2*3*4*1*5*6)).
Qed.
(* Linformer needs no more than dense exactly from n = 2k on. *)
Theorem break_even n k d : 0 < n -> 0 < d -> (flops (linformer n k d) <= flops (dense n d)) = (2
  * k <= n).
Proof.
move=> n0 d0; rewrite linformer_flops dense_flops leq_pmul2r //.
have -> : 8 * n * k = 4 * n * (2 * k) by rewrite mulnACA -[4 * 2]/8 mulnA.
by rewrite -mulnn [4 * (n * n)]mulnA leq_pmul2l // muln_gt0 n0.
Qed.
(* Equal polynomials. *)
Ltac same := rewrite ?expnS ?expn0 -?multE -?plusE; lia.
(* Proposition 8.2, growth. With l = sqrt n, so n = l^2 and n^(3/2) = l^3, the strided row lies between
   two multiples of l^3 (for a fixed t, which divides n), and the fixed row is one. *)
Theorem root_growth b t l c d : 0 < l ->
  (l ^ 2 = b * t -> 8 * d * l ^ 3 <= flops (strided b t l l d) <= 4 * (t + 2) * d * l ^ 3) /\
  flops (fixed l l c d) = 4 * c.+1 * d * l ^ 3.
Proof.
move=> l0; split=> [e|]; last first.
  by rewrite (@fixed_flops l l c d (l * l)) // -[c.+1]addn1; same.
rewrite (@strided_flops b t l l d (l ^ 2)) ?mulnn //.
have -> : 4 * l ^ 2 * (t + l + l) * d = 8 * d * l ^ 3 + 4 * t * d * l ^ 2 by same.
have -> : 4 * (t + 2) * d * l ^ 3 = 8 * d * l ^ 3 + 4 * t * d * l ^ 3 by same.
by rewrite leq_addr leq_add2l leq_mul2l leq_pexp2l ?orbT.
Qed.
(* The other rows are multiples of n, for fixed parameters; Nystrom's lies between two of them. A
   window has a tiles of t queries, so n = a t; LSH has a chunks of m, so n = a m. *)
Theorem linear_growth k t w r m bs f d :
  [/\ 0 < k, 0 < t, 0 < w, 0 < r & 0 < m] -> 0 < f -> 0 < d ->
  [/\ exists2 c, 0 < c & forall n, flops (linformer n k d) = c * n,
      exists2 c, 0 < c & forall a, flops (window a t w d) = c * (a * t),
      exists2 c, 0 < c & forall a, flops (lsh r (a * m) a m bs d) = c * (a * m) &
      exists2 c, 0 < c & forall n, flops (linear n d) = c * n] /\
  [/\ exists2 c, 0 < c & forall n, flops (performer n f d) = c * n,
      exists2 c, 0 < c & forall n, flops (gru n d) = c * n &
      exists2 c, 0 < c & exists c', forall n, 0 < n -> c * n <= flops (nystrom n k d) <= c' * n].
Proof.
move=> [k0 t0 w0 r0 m0] f0 d0; split; split.
- by exists (8 * k * d) => [|n]; rewrite ?muln_gt0 ?k0 // linformer_flops; same.
- exists (4 * (t + w - 1) * d) => [|a].
    rewrite !muln_gt0 d0 andbT /=; case: (t) t0 => // u _.
    by rewrite addSn subn1 /= addn_gt0 w0 orbT.
  by rewrite (@window_flops a t w d (a * t)) //; same.
- exists (r * (d * (\sum_(b <- bs) 2 * b) + 8 * m * d)) => [|a].
    by rewrite muln_gt0 r0 addn_gt0; apply/orP; right; rewrite !muln_gt0 m0 d0.
  by rewrite (@lsh_flops r (a * m) a m bs d) //; same.
- by exists (4 * d * d.+1) => [|n]; rewrite ?muln_gt0 ?d0 // linear_flops -[d.+1]addn1; same.
- exists (4 * f * (2 * d + 1)) => [|n]; first by rewrite !muln_gt0 f0 addn1.
  by rewrite performer_flops; same.
- by exists (12 * d ^ 2) => [|n]; rewrite ?muln_gt0 ?expn_gt0 ?d0 // gru_flops; same.
exists (8 * k * d); first by rewrite !muln_gt0 k0.
exists (8 * k * d + 4 * k ^ 2 * d) => n n0; rewrite nystrom_flops.
have -> : 8 * n * k * d = 8 * k * d * n by same.
by rewrite leq_addr mulnDl leq_add2l leq_pmulr.
Qed.
End Counts.
End Counts.

(* Proposition 8.4 (Two hops): i reads j <= i if ... *)
Module TwoHops.
Local Open Scope nat_scope.
Section TwoHops.
Variable l : nat.
Hypotheses l0 : 0 < l.
Definition strided i j := (j <= i) && ((i - j < l) || (l %| i - j)).
Definition fixed c i j := (j <= i) && ((i %/ l == j %/ l) || (l - c <= j %% l)).
Definition two_hops (reads : nat -> nat -> bool) i j := exists k, reads i k /\ reads k j.

Theorem strided_two_hops i j : j <= i -> two_hops strided i j.
Proof.
move=> ji; exists (j + (i - j) %% l); rewrite /strided addKn leq_addr ltn_pmod //; split=> //.
have le : j + (i - j) %% l <= i by rewrite -[X in _ <= X](subnKC ji) leq_add2l leq_mod.
rewrite le subnDA; apply/orP; right.
by rewrite {1}(divn_eq (i - j) l) addnK dvdn_mull.
Qed.
Theorem fixed_two_hops c i j : 0 < c -> j <= i -> two_hops (fixed c) i j.
Proof.
move=> c0 ji; have [same|diff] := boolP (i %/ l == j %/ l).
  by exists j; rewrite /fixed ji same leqnn eqxx.
(* otherwise the last token of the block of j *)
have lt : j %/ l < i %/ l by rewrite ltn_neqAle eq_sym diff leq_div2r.
pose k := (j %/ l).+1 * l - 1.
have kl : k = j %/ l * l + (l - 1) by rewrite /k mulSn addnC addnBA.
have l1 : l - 1 < l by rewrite subn1 prednK.
have kd : k %/ l = j %/ l by rewrite kl divnMDl // [(l - 1) %/ l]divn_small ?addn0.
have km : k %% l = l - 1 by rewrite kl modnMDl [(l - 1) %% l]modn_small.
exists k; rewrite /fixed kd km eqxx leq_sub2l // orbT !andbT; split.
  rewrite /k leq_subLR add1n ltnW // ltnS (leq_trans _ (leq_trunc_div i l)) //.
  by rewrite leq_mul2r lt orbT.
by rewrite kl {1}(divn_eq j l) leq_add2l subn1 -ltnS prednK // ltn_pmod.
Qed.
End TwoHops.
End TwoHops.

(* Proposition 8.6 *)
Module Rounds.
Section Rounds.
Variables (F : realFieldType) (ex ln : F -> F).
Hypotheses (ex_gt0 : forall x, 0 < ex x) (exB : forall x y, ex (x - y) = ex x / ex y) (lnK :
  forall x, 0 < x -> ex (ln x) = x).
Variables (n r : nat) (S : 'I_r -> {set 'I_n}) (a v : 'I_n -> F).
(* N_ij: the rounds in which i sees j (i is fixed). *)
Definition times j := #|[set s | j \in S s]|.
(* rounds merged by their sums of exponentials: numerators and denominators are added *)
Definition merged (logit : 'I_n -> F) (j : 'I_n) :=
  (\sum_(s | j \in S s) ex (logit j)) / \sum_s \sum_(l in S s) ex (logit l).
Definition union := \bigcup_s S s.
Lemma sum_times (f : 'I_n -> F) : \sum_s \sum_(l in S s) f l = \sum_(l in union) f l *+ times l.
Proof.
rewrite (exchange_big_dep (mem union)) /=; last by move=> s j _ js; apply/bigcupP; exists s.
by apply: eq_bigr => j _; rewrite sumr_const; congr (_ *+ _); apply: eq_card => s; rewrite !inE.
Qed.
Lemma times0 j : (times j == 0)%N = (j \notin union).
Proof.
apply/idP/idP => [/eqP/cards0_eq z|ju].
  apply/negP => /bigcupP[s _ js]; have : s \in [set s | j \in S s] by rewrite inE.
  by rewrite z inE.
rewrite cards_eq0; apply/eqP/setP => s; rewrite !inE; apply: contraNF ju => js; apply/bigcupP; by
  exists s.
Qed.
Lemma num_times (c : F) j : \sum_(s | j \in S s) c = c *+ times j.
Proof. by rewrite sumr_const; congr (_ *+ _); apply: eq_card => s; rewrite !inE. Qed.
(* Proposition 8.6 (Rounds merge to a union): with a - ln N the merged weights are softmax over
   the union. *)
Theorem rounds_merge j : merged (fun j => a j - ln (times j)%:R) j = softmax_on ex union a j.
Proof.
have e l : l \in union -> ex (a l - ln (times l)%:R) *+ times l = ex (a l).
  move=> lu; have t0 : (0 < times l)%N by rewrite lt0n times0 lu.
  by rewrite exB lnK ?ltr0n // -[(_ / _) *+ _]mulr_natr divfK // pnatr_eq0 -lt0n.
rewrite /merged num_times sum_times (eq_bigr _ e) /softmax_on; case: ifP => [ju|/negbT]; first by
  rewrite e.
by rewrite -times0 => /eqP ->; rewrite mulr0n mul0r.
Qed.
(* Proposition 8.6, second sentence: without ln N the weight of j is multiplied by N_j. *)
Theorem uncorrected j : merged a j = (times j)%:R * ex (a j) / \sum_l (times l)%:R * ex (a l).
Proof.
rewrite /merged num_times sum_times -[ex (a j) *+ _]mulr_natl; congr (_ / _).
rewrite [RHS](bigID (mem union)) /= [X in _ = _ + X]big1 ?addr0 => [|l]; first by apply: eq_bigr
  => l _; rewrite mulr_natl.
by rewrite -times0 => /eqP ->; rewrite mul0r.
Qed.
End Rounds.
End Rounds.

(* Proposition 8.8 *)
Module Leak.
Local Open Scope nat_scope.
(* 8.8 *)
Section Leak.
Variables (n m : nat).
(* bucket b i of token i; place of i in the list sorted by (bucket, place) *)
(* b is the bucket of each token; tokens are sorted by bucket and place. *)
Definition before (b : 'I_n -> nat) (j i : 'I_n) := (b j < b i) || ((b j == b i) && (j < i)).
(* The place of i in the sorted list of all tokens. *)
Definition rank_all b i := #|[set j | before b j i]|.
(* The place of i within its bucket. *)
Definition rank_own (b : 'I_n -> nat) (i : 'I_n) := #|[set j : 'I_n | (b j == b i) && (j < i)]|.
(* i sees j: earlier, same bucket, own chunk of m or the one before. *)
Definition sees (rank : ('I_n -> nat) -> 'I_n -> nat) b (i j : 'I_n) :=
  [&& j <= i, b j == b i & (rank b j %/ m == rank b i %/ m) || ((rank b j %/ m).+1 == rank b i %/
    m)].
(* Proposition 8.8 (A border that the future moves), last sentence: cut within buckets, what i
   sees depends on the buckets of tokens j <= i only. *)
Theorem own_chunks b b' (i : 'I_n) : (forall j : 'I_n, j <= i -> b j = b' j) -> forall j, sees
  rank_own b i j = sees rank_own b' i j.
Proof.
move=> bb j; rewrite /sees; have [ji /=|//] := leqP j i.
have r (k : 'I_n) : k <= i -> rank_own b k = rank_own b' k.
  move=> ki; apply: eq_card => l; rewrite !inE; have [lk|] := ltnP l k; last by rewrite !andbF.
  by rewrite !andbT !bb // (leq_trans (ltnW lk)).
by rewrite !r // !bb.
Qed.
End Leak.
Definition b1 (i : 'I_5) : nat := nth 0 [:: 1; 1; 1; 1; 2] i.
Definition b2 (i : 'I_5) : nat := nth 0 [:: 1; 1; 1; 1; 0] i.
Lemma rankE (f : nat -> nat) (i : 'I_5) : rank_all (fun j : 'I_5 => f j) i =
  count (fun j => (f j < f i) || ((f j == f i) && (j < i))) (iota 0 5).
Proof. by rewrite /rank_all -sum1dep_card -sum1_count -[iota 0 5]/(index_iota 0 5) big_mkord. Qed.
Definition t3 : 'I_5 := @Ordinal 5 3 isT.
(* Proposition 8.8, first sentence: five tokens, chunks of two; the last one moves from bucket 2
   to 0, and token 3 no longer sees 0. *)
Theorem all_chunks : (forall j : 'I_5, j <= 3 -> b1 j = b2 j) /\
  sees 2 (@rank_all 5) b1 t3 ord0 /\ ~~ sees 2 (@rank_all 5) b2 t3 ord0.
Proof.
split; first by case=> [[|[|[|[|[|j]]]]] ?].
by rewrite /sees !rankE.
Qed.
End Leak.

(* Proposition 8.9 *)
Module Hash.
Section Hash.
Local Open Scope ring_scope.
Variables (F : realFieldType).
(* Multiply-adds of a product of n x d and d x c. *)
Definition rotation (n d c : F) := n * d * c.
Definition hash_cost n d (bs : seq F) := \sum_(b <- bs) rotation n d (b / 2%:R).
(* Proposition 8.9 (The price of a hash): one round costs n d / 2 times the sum of the b_u. *)
Theorem hash n d (bs : seq F) : hash_cost n d bs = n * d / 2%:R * \sum_(b <- bs) b.
Proof.
rewrite mulr_sumr; apply: eq_bigr => b _; by rewrite /rotation mulrA mulrAC.
Qed.
(* The bound n d F b^(1/F) / 2: x is the F-th root of b. *)
Theorem am_gm n d Fa (b : 'I_Fa -> F) x : (0 < Fa)%N -> 0 <= n * d -> (forall u, 0 <= b u) -> 0
  <= x -> x ^+ Fa = \prod_u b u ->
  n * d / 2%:R * (Fa%:R * x) <= n * d / 2%:R * \sum_u b u.
Proof.
move=> F0 nd b0 x0 xF; rewrite ler_wpmul2l ?divr_ge0 ?ler0n //.
have FR : 0 < Fa%:R :> F by rewrite ltr0n.
have s0 : 0 <= \sum_u b u by apply: sumr_ge0.
rewrite mulrC -ler_pdivl_mulr // -(@ler_pexpn2r _ Fa) ?nnegrE ?divr_ge0 ?(ltW FR) // xF.
have := leif_AGM (A := predT) (E := b) (fun i _ => b0 i); rewrite card_ord => /leif_le; exact.
Qed.
End Hash.

(* One rotation into b = 2 n / m buckets costs n^2 d / m. *)
Theorem one_rotation (F : realFieldType) (n d m : F) : hash_cost n d [:: 2%:R * n / m] = n ^+ 2 *
  d / m.
Proof.
have h : 2%:R != 0 :> F by rewrite pnatr_eq0.
by rewrite hash big_seq1 !mulrA [LHS](ACl (3*4*1*5*2*6)) /= mulVf // mul1r expr2.
Qed.
(* Factors of 2 only: b = 2^f, and the hash costs n d f. *)
Theorem signs_only (F : realFieldType) (n d : F) f : hash_cost n d (nseq f 2%:R) = n * d * f%:R.
Proof.
have h : 2%:R != 0 :> F by rewrite pnatr_eq0.
rewrite hash; elim: f => [|f IH]; first by rewrite big_nil !mulr0.
by rewrite big_cons mulrDr IH divfK // -[f.+1]add1n natrD mulrDr mulr1.
Qed.
End Hash.
