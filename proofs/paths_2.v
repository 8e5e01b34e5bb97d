(* Page 1, "Every path through self-attention" (notebooks/path_decomposition/paths.ipynb),
   continued.
   Theorem 1.5, Proposition 1.8, Proposition 1.9, Proposition 1.10. Compile paths.v first. *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import definitions paths.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Definition 1.1. The length of a path is the number of heads it goes through. *)
Definition length (H : nat) (p : path H) : nat := count isSome p.

Section Sums.
Variables (F : fieldType) (H n d dv : nat).
Variables (WV : nat -> 'I_H -> 'M[F]_(d, dv)) (WO : nat -> 'I_H -> 'M[F]_(dv, d)).
Variables (P : nat -> 'I_H -> 'M[F]_n) (X : 'M[F]_(n, d)).
(* (1.9): S L k after L layers; S_k = 0 for k = -1. *)
Fixpoint S L : nat -> 'M[F]_(n, d) :=
  if L is l.+1 then fun k =>
    S l k + (if k is k'.+1 then \sum_h P l h *m S l k' *m W WV WO l h else 0)
  else fun k => if k == 0%N then X else 0.

(* Theorem 1.5 (All paths, by length). S_k is the sum of the terms of all paths of length k. *)
Theorem sums L k :
  S L k = \sum_(p : L.-tuple (option 'I_H) | length p == k) term WV WO P X p.
Proof.
rewrite big_mkcond; elim: L k => [|l IH] k.
  rewrite (sum_nil _ (fun p => if length p == k then term WV WO P X p else 0)) /=.
  by rewrite term_nil eq_sym.
rewrite (sum_cons _ _ (fun p => if length p == k then term WV WO P X p else 0)) /=.
(* The paths that skip layer l have length k before; together they give S_k. *)
rewrite (bigD1 None) //= {1}IH; congr (_ + _).
(* Those that go through its head h have length k - 1 before. *)
rewrite (reindex_omap (@Some 'I_H) id) => [|[h|]] //=.
case: k => [|k]; first by rewrite big1 // => h _; rewrite big1.
apply: eq_big => [h|h _]; first by rewrite eqxx.
rewrite IH mulmx_sumr mulmx_suml; apply: eq_bigr => p _.
rewrite /length /= add1n eqSS; case: ifP => _; last by rewrite mulmx0 mul0mx.
by rewrite term_head size_tuple.
Qed.
End Sums.

(* Theorem 1.5, last part. If P 1 = 1, the lengths and the row b add up to the network with
   skips. *)
Theorem lengths_add_up (F : fieldType) (H n d dv : nat) WV WO bV bO att L (X : 'M[F]_(n, d)) :
  let P := @Pskip F H n d dv WV WO bV bO att X in
  (forall l h, (l < L)%N -> P l h *m one F n = one F n) ->
  SANs WV WO bV bO att L X = \sum_(k < L.+1) S WV WO P X L k + one F n *m bs WV WO bV bO L.
Proof.
move=> P P1; rewrite skip //; congr (_ + _); under [RHS]eq_bigr do rewrite sums.
rewrite (exchange_big_dep xpredT) //=; apply: eq_bigr => p _.
have pL : (length p < L.+1)%N by rewrite ltnS -[X in (_ <= X)%N](size_tuple p) count_size.
by rewrite (big_pred1 (Ordinal pL)) // => k; rewrite eq_sym.
Qed.

(* Theorem 1.5 without skips. *)
Section Without.
Variables (F : fieldType) (H n d dv : nat).
Variables (WV : nat -> 'I_H -> 'M[F]_(d, dv)) (WO : nat -> 'I_H -> 'M[F]_(dv, d)).
Variables (P : nat -> 'I_H -> 'M[F]_n) (X : 'M[F]_(n, d)).
(* (1.9) without skips: the first S_k on the right is dropped. *)
Fixpoint S0 L : nat -> 'M[F]_(n, d) :=
  if L is l.+1 then fun k => if k is k'.+1 then \sum_h P l h *m S0 l k' *m W WV WO l h else 0
  else fun k => if k == 0%N then X else 0.
(* Without skips all paths have length L. *)
Theorem sums_without_skips L k :
  S0 L k = if k == L then \sum_(p : L.-tuple 'I_H) term WV WO P X (map Some p) else 0.
Proof.
elim: L k => [|l IH] k; first by rewrite (sum_nil _ (fun p => term WV WO P X (map Some p))) term_nil.
case: k => [|k] //=; rewrite eqSS; under eq_bigr do rewrite IH.
case: eqP => [_|_]; last by rewrite big1 // => h _; rewrite mulmx0 mul0mx.
rewrite (sum_cons _ _ (fun p => term WV WO P X (map Some p))) /=; apply: eq_bigr => h _.
rewrite mulmx_sumr mulmx_suml; apply: eq_bigr => p _.
by rewrite term_head size_map size_tuple.
Qed.
End Without.
(* The output, with the b of Theorem 1.3. *)
Theorem lengths_add_up_without_skips (F : fieldType) (H n d dv : nat) WV WO bV bO att L
  (X : 'M[F]_(n, d)) :
  let P := @Pfull F H n d dv WV WO bV bO att X in
  (forall l h, (l < L)%N -> P l h *m one F n = one F n) ->
  SAN WV WO bV bO att L X = \sum_(k < L.+1) S0 WV WO P X L k + one F n *m b WV WO bV bO L.
Proof.
move=> P P1; rewrite decomposition //; congr (_ + _); rewrite big_ord_recr /= sums_without_skips eqxx.
by rewrite [X in _ = X + _]big1 ?add0r // => k _; rewrite sums_without_skips ltn_eqF.
Qed.

(* Proposition 1.8 (Cost). Procedures that count their multiplications. A state is an element of any
   additive group; heads l Y is what the heads of layer l add up to, with given attention matrices,
   and the number of multiplications that this takes: m for each state in each layer. *)
Section Cost.
Variables (M : zmodType) (heads : nat -> M -> M * nat) (m : nat) (X : M).
Hypothesis equal_cost : forall l Y, (heads l Y).2 = m.
(* The forward pass with skips. *)
Fixpoint forward L : M * nat :=
  if L is l.+1 then
    let: (Y, c) := forward l in let: (Z, c') := heads l Y in (Y + Z, (c + c')%N)
  else (X, 0%N).
(* One layer of (1.9) on the list S_0, ..., S_m: add to each state the heads of the one before. *)
Fixpoint add_shifted (before : M) (Ss hs : seq M) : seq M :=
  if Ss is Y :: Ss' then Y + before :: add_shifted (head 0 hs) Ss' (behead hs) else [:: before].
Definition step l (Ss : seq M) : seq M * nat :=
  let: hs := [seq heads l Y | Y <- Ss] in
  (add_shifted 0 Ss [seq h.1 | h <- hs], sumn [seq h.2 | h <- hs]).
Fixpoint pass L : seq M * nat :=
  if L is l.+1 then
    let: (Ss, c) := pass l in let: (Ss', c') := step l Ss in (Ss', (c + c')%N)
  else ([:: X], 0%N).

Lemma size_add b Ss hs : size (add_shifted b Ss hs) = (size Ss).+1.
Proof. by elim: Ss b hs => //= Y Ss IH b hs; rewrite IH. Qed.
(* It stores L + 1 states. *)
Theorem states_stored L : size (pass L).1 = L.+1.
Proof. by elim: L => //= l; case: (pass l) => Ss c /= <-; rewrite size_add. Qed.
Lemma nth_add b Ss hs k : size hs = size Ss ->
  nth 0 (add_shifted b Ss hs) k = nth 0 Ss k + nth 0 (b :: hs) k.
Proof.
elim: Ss b hs k => [|Y Ss IH] b [|h hs] //= k; first by rewrite nth_nil add0r.
by case=> sz; case: k => //= k; rewrite IH.
Qed.
(* The procedure computes (1.9). *)
Theorem pass_is_recursion l k : nth 0 (pass l.+1).1 k =
  nth 0 (pass l).1 k + (if k is k'.+1 then nth 0 [seq (heads l Y).1 | Y <- (pass l).1] k' else 0).
Proof.
by rewrite /=; case: (pass l) => Ss c /=; rewrite nth_add ?size_map // -map_comp; case: k.
Qed.
Lemma forward_cost L : (forward L).2 = (L * m)%N.
Proof.
elim: L => //= l; case: (forward l) => Y c /= ->; case E: (heads l Y) => [Z c'] /=.
by rewrite mulSn addnC -(equal_cost l Y) E.
Qed.
(* Before layer l there are l + 1 states, each treated as a forward pass treats its one state. *)
Lemma pass_cost L : (pass L).2 = (\sum_(l < L) l.+1 * m)%N.
Proof.
elim: L => [|l] /=; first by rewrite big_ord0.
have := states_stored l; case: (pass l) => Ss c /= sz ->; rewrite big_ord_recr /= -sz.
congr (_ + _)%N.
by elim: Ss {sz} => //= Y Ss ->; rewrite equal_cost mulSn.
Qed.
(* The sums by length take exactly (L+1)/2 times the multiplications of a forward pass. *)
Theorem cost L : (2 * (pass L).2 = (L + 1) * (forward L).2)%N.
Proof.
rewrite pass_cost forward_cost; elim: L => [|l IH]; first by rewrite big_ord0 !muln0.
by rewrite big_ord_recr /= mulnDr IH !addn1 mulnCA -mulnDl addn2.
Qed.
End Cost.

(* Such layers are those of Definition 1.1: two counted products for each of H heads. *)
Section Counted.
Variables (F : fieldType) (H n d : nat) (P : nat -> 'I_H -> 'M[F]_n) (W : nat -> 'I_H -> 'M[F]_d).
Definition mulc a b c (A : 'M[F]_(a, b)) (B : 'M[F]_(b, c)) := (A *m B, (a * b * c)%N).
Definition one_head l h (Y : 'M[F]_(n, d)) :=
  let: (Y', c) := mulc (P l h) Y in let: (Z, c') := mulc Y' (W l h) in (Z, (c + c')%N).
Definition all_heads l Y := (\sum_h (one_head l h Y).1, (\sum_h (one_head l h Y).2)%N).
Example cost_met X L : (2 * (pass all_heads X L).2 = (L + 1) * (forward all_heads X L).2)%N /\
  forall l Y, (all_heads l Y).1 = \sum_h P l h *m Y *m W l h.
Proof.
split=> //; apply: (@cost _ _ (\sum_(h < H) (n * n * d + n * d * d))%N) => l Y.
exact: eq_bigr.
Qed.
End Counted.

(* Proposition 1.9 (Lengths). There are binom(L, k) H^k paths of length k. *)
Section Lengths.
Variable (H : nat).
Theorem lengths L k : #|[set p : L.-tuple (option 'I_H) | length p == k]| = ('C(L, k) * H ^ k)%N.
Proof.
rewrite -sum1dep_card big_mkcond; elim: L k => [|l IH] k.
  by rewrite (sum_nil _ (fun p => if length p == k then 1 else 0)%N); case: k => [|k].
rewrite (sum_cons _ _ (fun p => if length p == k then 1 else 0)%N) (bigD1 None) //= {1}IH.
rewrite (reindex_omap (@Some 'I_H) id) => [|[h|]] //=.
case: k => [|k]; first by rewrite !bin0 big1 // => h _; rewrite big1.
(* Choose the layers that are not skipped, then a head in each. *)
rewrite binS mulnDl; congr (_ + _)%N.
rewrite (eq_big xpredT (fun=> 'C(l, k) * H ^ k)%N) => [|h|h _]; last 1 first.
- by rewrite -IH; apply: eq_bigr => p _; rewrite /length /= add1n eqSS.
- by rewrite sum_nat_const card_ord expnS mulnCA mulnA.
by rewrite eqxx.
Qed.
(* A path drawn uniformly has a binomial length, with L trials and chance H/(H+1):
   paths of length k, divided by all paths. *)
Theorem binomial (R : numFieldType) L k : (k <= L)%N ->
  let chance : R := H%:R / H.+1%:R in
  #|[set p : L.-tuple (option 'I_H) | length p == k]|%:R / #|{: L.-tuple (option 'I_H)}|%:R
  = 'C(L, k)%:R * chance ^+ k * (1 - chance) ^+ (L - k).
Proof.
move=> kL chance; rewrite lengths number_of_skip_paths natrM !natrX.
have H1 : H.+1%:R != 0 :> R by rewrite pnatr_eq0.
have -> : 1 - chance = H.+1%:R^-1.
  by rewrite /chance -[X in X - _](divff H1) -mulrBl -natrB // subSnn mul1r.
have -> : (H.+1%:R ^+ L)^-1 = H.+1%:R^-1 ^+ k * H.+1%:R^-1 ^+ (L - k) :> R.
  by rewrite -exprD subnKC // exprVn.
by rewrite exprMn !mulrA.
Qed.
(* Its mean is L H / (H + 1). *)
Theorem mean L :
  (H.+1 * (\sum_(p : L.-tuple (option 'I_H)) length p) = L * H * #|{: L.-tuple (option 'I_H)}|)%N.
Proof.
rewrite number_of_skip_paths; elim: L => [|l IH].
  by rewrite (sum_nil _ (fun p => length p)) muln0.
rewrite (sum_cons _ _ (fun p => length p)) (bigD1 None) //=.
rewrite (reindex_omap (@Some 'I_H) id) => [|[h|]] //=.
set D := (\sum_(p : l.-tuple (option 'I_H)) length p)%N in IH *.
have -> : (\sum_(h < H | Some h == Some h) \sum_(p : l.-tuple (option 'I_H)) (1 + length p)
  = H * (H.+1 ^ l + D))%N.
  rewrite (eq_bigl xpredT) => [|h]; last by rewrite eqxx.
  by rewrite sum_nat_const card_ord big_split /= sum_nat_const muln1 card_tuple
    card_option card_ord.
transitivity (H.+1 * (D + H * (H.+1 ^ l + D)))%N; first by [].
rewrite [(H * (_ + _))%N]mulnDr addnCA -mulSn IH -mulnDl -mulSn.
by rewrite mulnCA -expnS.
Qed.
End Lengths.
(* Exercise 1.1: five layers of three heads have 90 paths through exactly two heads. *)
Example lengths_met : #|[set p : 5.-tuple (option 'I_3) | length p == 2%N]| = 90%N.
Proof. by rewrite lengths. Qed.

(* Proposition 1.10 (Random signs). *)
Section Signs.
Variables (R : realFieldType) (L H n d dv : nat).
Variables (WV : nat -> 'I_H -> 'M[R]_(d, dv)) (WO : nat -> 'I_H -> 'M[R]_(dv, d)).
Variables (P : nat -> 'I_H -> 'M[R]_n) (X : 'M[R]_(n, d)).
(* A pattern says for every head of every layer whether its sign is -1. The expectation over
   independent fair signs is the mean over all patterns. *)
Definition pattern := {ffun 'I_L * 'I_H -> bool}.
Local Notation E := definitions.mean.
Definition sign (s : pattern) l h : R := if insub l is Some i then (-1) ^+ s (i, h) else 1.
Definition inner (A B : 'M[R]_(n, d)) : R := \sum_i \sum_j A i j * B i j.
(* The sums (1.9) with sigma W for W and the same P. *)
Definition S_signed s := S WV (fun l h => sign s l h *: WO l h) P X L.

(* The term of a path is multiplied by the product of the signs of its heads. *)
Fixpoint sign_path s (p : path H) : R :=
  if p is o :: q then (if o is Some h then sign s (size q) h else 1) * sign_path s q else 1.
Lemma term_signed s p :
  term WV (fun l h => sign s l h *: WO l h) P X p = sign_path s p *: term WV WO P X p.
Proof.
elim: p => [|[h|] p IH]; first by rewrite /= scale1r !term_nil.
  by rewrite !term_head IH /W /= -!scalemxAr -scalemxAl scalerA.
by rewrite !term_skip IH /= mul1r.
Qed.

(* Turn one sign. *)
Definition flip (x : 'I_L * 'I_H) (s : pattern) : pattern := [ffun y => s y (+) (y == x)].
Lemma flipK x : involutive (flip x).
Proof. by move=> s; apply/ffunP => y; rewrite !ffunE addbK. Qed.
Lemma sign_flip i h s l h' :
  sign (flip (i, h) s) l h' = (-1) ^+ ((l == i) && (h' == h)) * sign s l h'.
Proof.
rewrite /sign; case: insubP => [j _ <-|]; first by rewrite ffunE signr_addb mulrC xpair_eqE.
by case: eqP => [->|]; rewrite ?ltn_ord ?mul1r.
Qed.
(* The choice of a path in layer l. *)
Fixpoint choice (p : path H) l :=
  if p is o :: q then (if size q == l then o else choice q l) else None.
Lemma sign_path_flip i h s p :
  sign_path (flip (i, h) s) p = (-1) ^+ (choice p i == Some h) * sign_path s p.
Proof.
have big q l : (size q <= l)%N -> choice q l = None.
  by elim: q => //= o q IH ql; rewrite ltn_eqF // IH // ltnW.
elim: p => [|o p IH] /=; first by rewrite mulr1.
case: (eqVneq (size p) i) => [pi|pi]; last first.
  case: o => [h'|]; last by rewrite IH !mul1r.
  by rewrite sign_flip (negbTE pi) mul1r IH mulrCA.
rewrite IH big ?pi // mul1r; case: o => [h'|]; last by rewrite !mul1r.
by rewrite sign_flip eqxx mulrA.
Qed.
Lemma choice_inj p q : size p = size q ->
  (forall l, (l < size p)%N -> choice p l = choice q l) -> p = q.
Proof.
elim: p q => [|o p IH] [|o' q] //= [sz] same; congr (_ :: _).
  by have := same (size p) (ltnSn _); rewrite sz eqxx.
apply: IH => // l lp; have := same l (ltnW lp).
by rewrite sz !gtn_eqF // -sz.
Qed.

(* E[sigma_p sigma_q] is 0 for different paths and 1 for equal ones. *)
Lemma orthogonal (p q : L.-tuple (option 'I_H)) :
  E (fun s : pattern => sign_path s p * sign_path s q) = (p == q)%:R.
Proof.
have sq s (r : path H) : sign_path s r * sign_path s r = 1.
  elim: r => /= [|[h|] r IH]; rewrite ?mulr1 ?mul1r // mulrACA IH mulr1 /sign.
  by case: insub => [i|]; rewrite ?mulr1 // -expr2 sqrr_sign.
rewrite /definitions.mean; case: (eqVneq p q) => [->|pq].
  under eq_bigr do rewrite sq; rewrite sumr_const divff // pnatr_eq0 -lt0n.
  by apply/card_gt0P; exists [ffun _ => false].
(* They differ in some layer i, so some sign (i, h) occurs exactly once. *)
have [i ci] : exists i : 'I_L, choice p i != choice q i.
  apply/existsP; apply: contraR pq; rewrite negb_exists => /forallP same; apply/eqP/val_inj.
  apply: choice_inj => [|l]; rewrite !size_tuple // => lL.
  by apply/eqP; have := same (Ordinal lL); rewrite negbK.
have [h ch] : exists h, (choice p i == Some h) (+) (choice q i == Some h).
  case: (choice p i) ci => [h|] ci; first by exists h; rewrite eqxx eq_sym (negbTE ci).
  by case: (choice q i) ci => // h _; exists h; rewrite eqxx.
(* Turning this sign turns the sum into its negative. *)
set T := \sum_s _; suff -> : T = 0 by rewrite mul0r.
suff TT : T = - T by apply/eqP; move/eqP: TT; rewrite -addr_eq0 -mulr2n mulrn_eq0.
rewrite /T [LHS](reindex_inj (inv_inj (flipK (i, h)))) -sumrN; apply: eq_bigr => s _.
by rewrite !sign_path_flip mulrACA -signr_addb ch expr1 mulN1r.
Qed.

(* (1.10): the mean of |S_k|^2 is the sum of the squared norms of the terms of length k. *)
Theorem random_signs k : E (fun s : pattern => sqnorm (S_signed s k)) =
  \sum_(p : L.-tuple (option 'I_H) | length p == k) sqnorm (term WV WO P X p).
Proof.
pose T (p : L.-tuple (option 'I_H)) := term WV WO P X p.
pose long (p : L.-tuple (option 'I_H)) := length p == k.
(* Expand the square. *)
have square s : sqnorm (S_signed s k) = \sum_(p | long p) \sum_(q | long q)
    (sign_path s p * sign_path s q) * inner (T p) (T q).
  rewrite /sqnorm /S_signed sums; under eq_bigr do under eq_bigr do rewrite expr2 !summxE.
  under eq_bigr do under eq_bigr do rewrite big_distrlr.
  rewrite (eq_bigr (fun i => \sum_(p | long p) \sum_j \sum_(q | long q)
    sign_path s p * sign_path s q * (T p i j * T q i j))).
    rewrite exchange_big /=; apply: eq_bigr => p _; under eq_bigr do rewrite exchange_big /=.
    rewrite exchange_big /=; apply: eq_bigr => q _; rewrite /inner mulr_sumr.
    by apply: eq_bigr => i _; rewrite mulr_sumr.
  move=> i _; rewrite exchange_big /=; apply: eq_bigr => p _; apply: eq_bigr => j _.
  by apply: eq_bigr => q _; rewrite !term_signed !mxE mulrACA.
have orth p q := orthogonal p q; rewrite /definitions.mean in orth.
rewrite /definitions.mean (eq_bigr _ (fun s _ => square s)) exchange_big mulr_suml; apply: eq_bigr => p pk.
rewrite exchange_big mulr_suml (bigD1 p) //= -mulr_suml mulrAC orth eqxx mul1r.
rewrite big1 ?addr0 // => q /andP[_ qp].
by rewrite -mulr_suml mulrAC orth eq_sym (negbTE qp) mul0r.
Qed.
End Signs.
(* Where every matrix is the number 1, the mean counts the paths of length k. *)
Example signs_met L H k : let one1 (l : nat) (h : 'I_H) := 1%:M : 'M[rat]_1 in
  definitions.mean (fun s : pattern L H => sqnorm (S_signed one1 one1 one1 1%:M s k)) = ('C(L, k) * H ^ k)%:R.
Proof.
move=> one1; rewrite random_signs (eq_bigr (fun=> 1)) => [|p _].
  by rewrite sumr_const -lengths cardsE.
have -> : term one1 one1 one1 1%:M p = 1%:M.
  elim: (tval p) => [|[h|] q IH]; rewrite ?term_nil ?term_head ?term_skip // IH.
  by rewrite /W !mulmx1.
by rewrite /sqnorm !big_ord1 !mxE.
Qed.

(* The network of paths.v, without skips. *)
Example without_skips_met L (X : 'cV[rat]_2) :
  SAN ones ones ones (fun _ => const_mx 1) (fun _ _ _ => Pmean) L X =
  \sum_(k < L.+1) S0 ones ones (fun _ _ => Pmean) X L k
    + one _ 2 *m b ones ones ones (fun _ => const_mx 1) L.
Proof. by apply: lengths_add_up_without_skips => l h _; exact: Pmean_rows. Qed.
