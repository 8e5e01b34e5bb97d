(* Page 24: Five theorems, one matrix (Propositions 24.9 and 24.5).
   R is any ordered field; exp and ln are any functions with the laws of the real ones that are
   listed where they are used. *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import definitions identities.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* ---- Proposition 24.9 (Counting) ---- *)
(* The pigeonhole: B < m delta leaves room for at most m^d points. *)
Lemma cells (R : realFieldType) (N d m : nat) (x : 'I_N -> 'I_d -> R) (B delta : R) :
  0 < delta -> B < m%:R * delta -> (forall i c, 0 <= x i c <= B) ->
  (forall i j, i != j -> exists c, delta <= `|x i c - x j c|) -> (N <= m ^ d)%N.
Proof.
move=> d0 Bm box apart.
have cell i c : exists k : 'I_m, k%:R * delta <= x i c < k.+1%:R * delta.
  have [x0 xB] := andP (box i c); have xm := le_lt_trans xB Bm.
  have ex : exists k, x i c < k%:R * delta by exists m.
  case: (ex_minnP ex) => -[|k]; first by rewrite mul0r ltNge x0.
  move=> xk min; have km : (k < m)%N := min m xm; exists (Ordinal km); rewrite /= xk andbT leNgt.
  by apply/negP => /min; rewrite ltnn.
have [f fP] : exists f : 'I_N -> 'I_d -> 'I_m, forall i c,
  (f i c)%:R * delta <= x i c < (f i c).+1%:R * delta.
  have /fin_all_exists[f fP] : forall i, exists g : 'I_d -> 'I_m, forall c,
    (g c)%:R * delta <= x i c < (g c).+1%:R * delta.
    by move=> i; apply: fin_all_exists (cell i).
  by exists f.
have inj : injective (fun i => [ffun c => f i c]).
  move=> i j /ffunP eqf; apply/eqP; apply: contraT => /apart[c]; rewrite leNgt => /negP[].
  have := eqf c; rewrite !ffunE => fc; have [l u] := andP (fP i c); have [l' u'] := andP (fP j c).
  move: l u u'; rewrite fc -addn1 natrD mulrDl mul1r => l u u'.
  by rewrite ltr_distl ltr_subl_addr (lt_le_trans u') ?ler_add2r //= (lt_le_trans u) ?ler_add2r.
by have := leq_card _ inj; rewrite card_ffun !card_ord.
Qed.


(* ceil(N^(1/d)) - 1 is the largest k with k^d < N: then k delta <= B. *)
Theorem counting (R : realFieldType) (N d k : nat) (x : 'I_N -> 'I_d -> R) (B delta : R) :
  0 < delta -> (forall i c, 0 <= x i c <= B) ->
  (forall i j, i != j -> exists c, delta <= `|x i c - x j c|) ->
  (k ^ d < N)%N -> k%:R <= B / delta.
Proof.
move=> d0 box apart kN; rewrite ler_pdivl_mulr // leNgt; apply/negP => Bk.
by have := cells d0 Bk box apart; rewrite leqNgt kN.
Qed.

(* A grid attains it: N <= (k + 1)^d points in [0, k delta]^d. *)
Theorem grid (R : realFieldType) (N d k : nat) (delta : R) : 0 < delta -> (N <= k.+1 ^ d)%N ->
  exists x : 'I_N -> 'I_d -> R, (forall i c, 0 <= x i c <= k%:R * delta) /\
  forall i j, i != j -> exists c, delta <= `|x i c - x j c|.
Proof.
move=> d0 Nk; pose T := {ffun 'I_d -> 'I_k.+1}.
have NT : (N <= #|[finType of T]|)%N by rewrite card_ffun !card_ord.
pose g (i : 'I_N) : T := enum_val (widen_ord NT i).
exists (fun i c => (g i c : nat)%:R * delta); split=> [i c|i j ij].
  by rewrite mulr_ge0 ?ler0n ?(ltW d0) //= ler_pmul2r // ler_nat -ltnS ltn_ord.
(* Two points differ in a coordinate, by a multiple of delta. *)
have : g i != g j by apply: contra ij => /eqP/enum_val_inj/(congr1 val)/= e; apply/eqP/val_inj.
have [/forallP eq|] := boolP [forall c, g i c == g j c].
  by case/eqP; apply/ffunP => c; apply/eqP/eq.
rewrite negb_forall => /existsP[c ne] _; exists c.
rewrite -mulrBl normrM (gtr0_norm d0) ler_pmull //.
have [lt|lt|/val_inj e] := ltngtP (g i c) (g j c); last by rewrite e eqxx in ne.
  by rewrite distrC -natrB ?(ltnW lt) // normr_nat ler1n subn_gt0.
by rewrite -natrB ?(ltnW lt) // normr_nat ler1n subn_gt0.
Qed.
(* Nine points of the page: d = 2, k = 2, delta = 1. *)
Fact grid_instance : exists x : 'I_9 -> 'I_2 -> rat, (forall i c, 0 <= x i c <= 2%:R * 1) /\
  forall i j, i != j -> exists c, 1 <= `|x i c - x j c|.
Proof. by apply: grid. Qed.

(* ---- Proposition 24.5 (Memory needs long logits), (b) ---- *)
(* L matrices that give at least a = 1 - epsilon along maps; the product along their composition. *)
Section Along.
Variables (R : realFieldType) (n : nat) (a : R).
Definition step := ('M[R]_n * {ffun 'I_n -> 'I_n})%type.
Definition product (Ps : seq step) := foldr (fun p M => p.1 *m M) 1%:M Ps.
Definition follow (Ps : seq step) i := foldl (fun k (p : step) => p.2 k) i Ps.
Lemma follows (Ps : seq step) : 0 <= a ->
  (forall p, p \in Ps -> (forall i j, 0 <= p.1 i j) /\ forall i, a <= p.1 i (p.2 i)) ->
  (forall i j, 0 <= product Ps i j) /\ forall i, a ^+ size Ps <= product Ps i (follow Ps i).
Proof.
move=> a0; elim: Ps => [|p Ps IH] along /=.
  by split=> [i j|i]; rewrite mxE ?ler0n // eqxx.
have [p0 pa] := along p (mem_head _ _).
case: IH => [q qPs|P0 Pa]; first by apply: along; rewrite inE qPs orbT.
split=> [i j|i]; first by rewrite mxE sumr_ge0 // => k _; rewrite mulr_ge0.
rewrite mxE (bigD1 (p.2 i)) //= exprS; apply: ler_paddr; last by rewrite ler_pmul ?exprn_ge0.
by rewrite sumr_ge0 // => k _; rewrite mulr_ge0.
Qed.
End Along.

(* Two rows with at least b in different columns. *)
Lemma overlap (R : realFieldType) n (p q : 'I_n -> R) i j (b : R) : i != j ->
  (forall k, 0 <= p k) -> \sum_k p k = 1 -> (forall k,
    0 <= q k) -> \sum_k q k = 1 -> b <= p i -> b <= q j ->
  2%:R * b - 1 <= 2%:R^-1 * \sum_k `|p k - q k|.
Proof.
move=> ij p0 p1 q0 q1 pi qj.
have two (f : 'I_n -> R) : (forall k, 0 <= f k) -> f i + f j <= \sum_k f k.
  by move=> f0; rewrite (bigD1 i) //= (bigD1 j) 1?eq_sym //= addrA ler_addl sumr_ge0.
have qi : q i <= 1 - b by rewrite ler_subr_addr -q1 (le_trans _ (two q q0)) // ler_add2l.
have pj : p j <= 1 - b by rewrite ler_subr_addr -p1 (le_trans _ (two p p0)) // addrC ler_add2r.
rewrite -(ler_pmul2l (ltr0n R 2)) mulrA mulfV ?pnatr_eq0 // mul1r.
apply: le_trans (two (fun k => `|p k - q k|) (fun k => normr_ge0 _)).
have di : b - (1 - b) <= `|p i - q i| by apply: le_trans (ler_norm _); rewrite ler_sub.
have dj : b - (1 - b) <= `|p j - q j| by rewrite distrC; apply: le_trans (ler_norm _);
  rewrite ler_sub.
apply: le_trans (ler_add di dj); rewrite -mulr2n -[(b - _) *+ 2]mulr_natl ler_wpmul2l ?ler0n //.
by rewrite opprB addrA -mulr2n -[b *+ 2]mulr_natl.
Qed.


Section Memory.
Variables (R : realFieldType) (n : nat).
Definition tv (P : 'M[R]_n) i j := 2%:R^-1 * \sum_k `|P i k - P j k|.
(* (24.1): t is the coefficient tau(P), the largest tv. *)
Definition is_tau P t := (forall i j, tv P i j <= t) /\ exists i j, tv P i j = t.

Lemma product_stochastic (Ps : seq (step R n)) : (forall p, p \in Ps -> stochastic p.1) ->
  forall i, \sum_j product Ps i j = 1.
Proof.
elim: Ps => [|p Ps IH] st i /=.
  by rewrite (bigD1 i) //= big1 ?mxE ?eqxx ?addr0 // => j ji; rewrite mxE eq_sym (negbTE ji).
have [_ p1] := st p (mem_head _ _).
under eq_bigr do rewrite mxE; rewrite exchange_big /= -[RHS](p1 i); apply: eq_bigr => k _.
by rewrite -mulr_sumr IH ?mulr1 // => q qPs; apply: st; rewrite inE qPs orbT.
Qed.

(* Proposition 24.5 (b): each of L matrices gives at least 1 - epsilon along a permutation. *)
Theorem memory (Ps : seq (step R n)) eps t : (1 < n)%N -> 0 < eps -> eps < 1 ->
  (forall p, p \in Ps -> [/\ stochastic p.1, injective p.2 & forall i, 1 - eps <= p.1 i (p.2 i)]) ->
  is_tau (product Ps) t -> 2%:R * (1 - eps) ^+ size Ps - 1 <= t.
Proof.
move=> n2 e0 e1 each [tau _]; have a0 : 0 <= 1 - eps by rewrite subr_ge0 ltW.
have [i [j ij]] : exists i j : 'I_n, i != j by exists (Ordinal n2), (Ordinal (ltnW n2)).
have [P0 Pa] : (forall i j, 0 <= product Ps i j) /\
    forall i, (1 - eps) ^+ size Ps <= product Ps i (follow Ps i).
  by apply: follows => // p /each[[p0 _] _ pa].
have P1 := product_stochastic (fun p h => let: And3 st _ _ := each p h in st).
apply: le_trans (tau i j); rewrite /tv.
apply: (overlap (i := follow Ps i) (j := follow Ps j)) => //.
(* The composition of permutations keeps the two rows apart. *)
rewrite (inj_eq _) // => {i j ij}; move: each; rewrite /follow.
elim: Ps {tau P0 Pa P1} => [|p Ps IH] each k l //=.
have [_ pI _] := each p (mem_head _ _) => e; apply: pI; apply: IH e => q qPs.
by apply: each; rewrite inE qPs orbT.
Qed.
End Memory.
(* An instance: the identity matrix along the identity. *)
Fact memory_instance : forall p, p \in [:: (1%:M : 'M[rat]_2, [ffun i : 'I_2 => i])] ->
  [/\ stochastic p.1, injective p.2 & forall i, 1 - 2%:R^-1 <= p.1 i (p.2 i)].
Proof.
move=> p; rewrite inE => /eqP -> /=; split=> [|i j|i]; last by rewrite ffunE mxE eqxx.
  split=> [i j|i]; first by rewrite mxE ler0n.
  by rewrite (bigD1 i) //= big1 ?mxE ?eqxx // => j ji; rewrite mxE eq_sym (negbTE ji).
by rewrite !ffunE.
Qed.

(* ... and both theorems at their instances. *)
Example memory_met t : is_tau (product [:: (1%:M : 'M[rat]_2, [ffun i : 'I_2 => i])]) t ->
  2%:R * (1 - 2%:R^-1) ^+ 1 - 1 <= t.
Proof. by apply: memory memory_instance. Qed.
Example counting_met : exists x : 'I_9 -> 'I_2 -> rat, 
  (forall i c, 0 <= x i c <= 2%:R * 1) /\ 2%:R <= 2%:R * 1 / 1 :> rat.
Proof.
have [x [box apart]] := grid_instance; exists x; split; first exact: box.
exact: (counting (k := 2) (delta := 1) _ box apart).
Qed.

(* ---- Proposition 24.5 (a) ---- *)
Section LongLogits.
(* exp and ln as the proof uses them; the real functions are an instance. *)
Variables (R : realFieldType) (exp ln : R -> R).
Hypothesis expD : forall x y, exp (x + y) = exp x * exp y.
Hypothesis exp_gt0 : forall x, 0 < exp x.
Hypothesis exp_lt : forall x y, x < y -> exp x < exp y.
Hypothesis lnK : forall y, 0 < y -> exp (ln y) = y.
Variables (n : nat) (eps : R).
Hypothesis n2 : (1 < n)%N.
Hypothesis eps0 : 0 < eps.
Hypothesis eps1 : eps < 1.
(* A row of logits has radius at most r if it lies in an interval of length 2 r. *)
Definition radius (l : 'I_n -> R) r := forall i j, l i - l j <= 2%:R * r.
Definition need := 2%:R^-1 * ln ((1 - eps) * (n.-1)%:R / eps).          (* (24.6) *)

Lemma exp_le x y : x <= y -> exp x <= exp y.
Proof. by rewrite le_eqVlt => /predU1P[->|/exp_lt/ltW]. Qed.
Lemma q_gt0 : 0 < (1 - eps) * (n.-1)%:R / eps.
Proof. by rewrite !mulr_gt0 ?invr_gt0 ?subr_gt0 ?ltr0n // -subn1 subn_gt0. Qed.

Theorem long_logits l r i : radius l r -> 1 - eps <= softmax exp l i -> need <= r.
Proof.
move=> rad; have Z0 : 0 < \sum_j exp (l j).
  by rewrite (bigD1 i) //= ltr_paddr // sumr_ge0 // => j _; apply: ltW.
rewrite /softmax ler_pdivl_mulr // (bigD1 i) //= => gives.
rewrite /need -(ler_pmul2l (ltr0n R 2 : 0 < 2%:R)) mulrA mulfV ?pnatr_eq0 // mul1r leNgt.
apply/negP => /exp_lt; rewrite lnK ?q_gt0 // ltNge => /negP; apply.
(* The other n - 1 tokens have at least e^(l_i - 2 r) each. *)
rewrite ler_pdivr_mulr // -(ler_pmul2r (exp_gt0 (l i))).
set T := \sum_(j | _) _ in gives.
have tail : (n.-1)%:R * exp (l i) <= exp (2%:R * r) * T.
  rewrite /T mulr_sumr; have -> : (n.-1)%:R * exp (l i) = \sum_(j < n | j != i) exp (l i).
    by rewrite sumr_const cardC1 card_ord mulr_natl.
  apply: ler_sum => j _; rewrite -expD; apply: exp_le.
  by rewrite -ler_subl_addr rad.
have part : (1 - eps) * T <= eps * exp (l i).
  rewrite -subr_ge0; move: gives; rewrite -subr_ge0; congr (0 <= _); ident.
rewrite -mulrA; apply: le_trans (ler_wpmul2l _ tail) _; first by rewrite subr_ge0 ltW.
rewrite mulrCA -mulrA ler_wpmul2l ?(ltW (exp_gt0 _)) //.
Qed.

(* Equality for the logits r, -r, ..., -r, if the right side is not negative. *)
Theorem long_logits_sharp : 0 <= need -> exists l i, radius l need /\ softmax exp l i = 1 - eps.
Proof.
move=> need0; pose i0 := Ordinal (ltnW n2); pose l i := if i == i0 then need else - need.
exists l, i0; split=> [i j|].
  have le0 : 0 <= 2%:R * need by rewrite mulr_ge0 ?ler0n.
  have E : need - - need = 2%:R * need by ident.
  have E' : - need - need = - (2%:R * need) by ident.
  rewrite /l; case: (i == i0); case: (j == i0); rewrite ?subrr ?E ?E' //.
  by rewrite (le_trans _ le0) // oppr_le0.
have two : 2%:R * need = ln ((1 - eps) * (n.-1)%:R / eps).
  by rewrite /need mulrA mulfV ?pnatr_eq0 ?mul1r.
have l0 : l i0 = need by rewrite /l eqxx.
rewrite /softmax (bigD1 i0) //= (eq_bigr (fun _ => exp (- need))) => [|j /negbTE ne]; last first.
  by rewrite /l ne.
rewrite sumr_const cardC1 card_ord l0 -mulr_natl.
(* e^need = e^(2 need) e^(- need). *)
have -> : exp need = (1 - eps) * (n.-1)%:R / eps * exp (- need).
  by rewrite -{1}(lnK q_gt0) -two -expD; congr exp; ident.
set E := exp (- need); set q : R := (n.-1)%:R.
have h : eps * eps^-1 = 1 by rewrite mulfV // gt_eqF.
have -> : (1 - eps) * q / eps * E + q * E = q * E / eps.
  transitivity ((1 - eps) * q / eps * E + q * E * (eps * eps^-1)); first by rewrite h mulr1.
  by ident.
have -> : (1 - eps) * q / eps * E = (1 - eps) * (q * E / eps) by ident.
rewrite mulfK // gt_eqF // divr_gt0 // mulr_gt0 ?exp_gt0 // /q ltr0n -subn1 subn_gt0 //.
Qed.
End LongLogits.
(* An instance: the exponential function, defined by its series in exponential.v, and a logarithm. *)
Require exponential.
Fact exponential_laws (R : realFieldType) (exp ln : R -> R) : exponential.exponential exp ->
  exponential.logarithm exp ln -> [/\ forall x y, exp (x + y) = exp x * exp y,
    forall x, 0 < exp x, forall x y, x < y -> exp x < exp y & forall y, 0 < y -> exp (ln y) = y].
Proof.
move=> E L; split=> [x y|x|x y|y y0]; [exact: exponential.expD | exact: exponential.exp_gt0 | |].
  by rewrite exponential.exp_lt.
exact: L.
Qed.
